"""Page names, the navigation bar, and links between pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import streamlit as st
from msgspec import Struct

from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import escape_html, format_element
from graphviz_dash.ui.page.registry import GROUPS, PAGES

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

NAMES: Final = tuple(PAGES)
"""Page names, which are also their paths, in navigation order."""

_BAR: Final = "page-links"
"""Session key of the navigation bar of this run."""


class _Bar(Struct):
    """Page links at the top."""

    slot: DeltaGenerator
    current: str
    """Page that shows the links."""
    reasons: Mapping[str, str]
    """Reasons for missing content, by page name."""

    def draw(self) -> None:
        """Draw the links with the current page states."""
        markup = "".join(map(self._format_group, GROUPS))
        self.slot.html(format_element("nav", markup, "pages"), width="content")

    def _format_group(self, group: str) -> str:
        """Format the links of a group below its name."""
        links = "".join(
            link_markup(
                name,
                page.title,
                url_state.get_link_parameters(name) if name != "overview" else {},
                kind="dim" if name in self.reasons else "",
                reason=self.reasons.get(name, ""),
                is_current=name == self.current,
            )
            for name, page in PAGES.items()
            if page.group == group
        )
        name_markup = format_element("small", escape_html(group), **{"aria-hidden": "true"})
        return format_element(
            "div",
            name_markup + format_element("div", links),
            "page-group",
            role="group",
            **{"aria-label": group or "Start"},
        )


def get_page(name: str) -> Any:
    """Return the st.Page called ``name``, which is also its path."""
    # With an icon the browser would request the tab icon from another host.
    shown = partial(_render, name)
    return st.Page(shown, title=get_title(name), url_path=name, default=name == "overview")


def _render(name: str) -> None:
    """Import and render a page; pages are imported on demand."""
    import_module(get_module_name(name)).render()


def get_module_name(name: str) -> str:
    """The module of the page called ``name``."""
    return f"graphviz_dash.{PAGES[name].module}"


def list_pages() -> list[Any]:
    """Return all pages in navigation order."""
    return [get_page(name) for name in NAMES]


def get_title(name: str) -> str:
    """What the page called ``name`` is called in the navigation."""
    return PAGES[name].title


def get_page_name(current: Any) -> str:
    """Return the name of a page from st.navigation; the default page's path is empty."""
    return current.url_path or "overview"


def draw_links(current: str) -> None:
    """Draw a link to each page.

    Unlike Streamlit's navigation they keep the state: Streamlit drops the address's parameters and
    adds several history entries.
    """
    bar = _Bar(st.empty(), current, {})
    st.session_state[_BAR] = bar
    bar.draw()


def carry_parameters(name: str, values: Mapping[str, str | None]) -> None:
    """Set parameters of the address of the page ``name`` for the next visit; None removes one.

    Updates the navigation bar as well.
    """
    url_state.carry_parameters(name, values)
    bar: _Bar | None = st.session_state.get(_BAR)
    if bar is not None:
        bar.draw()


def dim_links(reasons: Mapping[str, str]) -> None:
    """Dim the navigation links to pages without content, by name, with the reason."""
    bar: _Bar | None = st.session_state.get(_BAR)
    if bar is not None and reasons:
        bar.reasons = reasons
        bar.draw()


def link_markup(
    name: str,
    label: str,
    query: Mapping[str, str | list[str]],
    *,
    icon: bool = True,
    kind: str = "",
    reason: str = "",
    is_current: bool = False,
) -> str:
    """Format a link to the page ``name``; ``reason`` explains missing content.

    One of Streamlit's page links for each would be three elements of a page and a Markdown
    document. A script that :mod:`graphviz_dash.app.hosting.document` puts on the page follows it.
    """
    parameters = urlencode(query, doseq=True)
    icon_markup = format_element("i", "", **{"data-icon": PAGES[name].icon, "aria-hidden": "true"})
    path = "./" if name == "overview" else f"./{name}"
    attributes = {"href": f"{path}?{parameters}" if parameters else path}
    if reason:
        attributes["title"] = reason
    if is_current:
        attributes["aria-current"] = "page"
    content = (icon_markup if icon else "") + format_element("span", escape_html(label))
    return format_element("a", content, f"to-page {kind}".rstrip(), **attributes)


def show_link(name: str, label: str, query: Mapping[str, str | list[str]]) -> None:
    """Show a link to the page ``name``."""
    st.html(link_markup(name, label, query), width="content")
