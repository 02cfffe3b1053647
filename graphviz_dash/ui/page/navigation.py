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
from graphviz_dash.ui.page.markup import format_element, format_text
from graphviz_dash.ui.page.registry import GROUPS, PAGES

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

NAMES: Final = tuple(PAGES)
"""Page names, also their paths, in navigation order."""

_BAR: Final = "page-links"
"""Session key of the navigation bar of this run."""
_REASONS: Final = "page-reasons"
"""Session key: an experiment, and the reasons why its pages have no content."""


class _Bar(Struct):
    """Page links at the top."""

    slot: DeltaGenerator
    current: str
    reasons: Mapping[str, str] | None
    """By page name; None before they are known."""

    tab_slot: DeltaGenerator | None = None
    """Place of the tabs of the page; None without tabs."""

    sent_links: str = ""
    """Links as last sent to the browser."""

    def draw(self) -> None:
        """Draw the links with the current page states, unless they are unchanged."""
        groups = "".join(map(self._format_group, GROUPS))
        links = format_element("nav", groups, "pages")
        if links != self.sent_links:
            self.slot.html(links, width="content")
            self.sent_links = links
        if self.tab_slot is not None:
            self.tab_slot.html(self._format_tabs())

    def _format_tabs(self) -> str:
        parent = PAGES[self.current].tab_of or self.current
        links = "".join(
            link_markup(
                name,
                PAGES[name].tab,
                url_state.get_link_parameters(name),
                icon=False,
                is_current=name == self.current,
            )
            for name in (*list_tabs(parent), parent)
        )
        return format_element("nav", links, "tabs", **{"aria-label": get_title(parent)})

    def _format_group(self, group: str) -> str:
        links = "".join(
            self._format_link(name)
            for name, page in PAGES.items()
            if page.group == group and not page.tab_of
        )
        name_markup = format_text("small", group, **{"aria-hidden": "true"})
        return format_element(
            "div",
            name_markup + format_element("div", links),
            "page-group",
            role="group",
            **{"aria-label": group or "Start"},
        )

    def _format_link(self, name: str) -> str:
        """Format the link to the page ``name``, or to its first tab with content."""
        tabs = list_tabs(name)
        target = next((tab for tab in tabs if self.has_content(tab)), name)
        reason = "" if self.reasons is None else self.reasons.get(target, "")
        return link_markup(
            target,
            PAGES[name].title,
            url_state.get_link_parameters(target) if target != "overview" else {},
            kind="dim" if reason else "",
            reason=reason,
            is_current=self.current in (name, *tabs),
        )

    def has_content(self, name: str) -> bool:
        """Check whether a page is known to have content."""
        return self.reasons is not None and name not in self.reasons


def list_tabs(name: str) -> tuple[str, ...]:
    """List the pages that are tabs of the page ``name``, without itself."""
    return tuple(tab for tab, page in PAGES.items() if page.tab_of == name)


def show_tabs(current: str) -> None:
    """Show the tabs of the page ``current``; nothing if only one of them has content."""
    bar: _Bar | None = st.session_state.get(_BAR)
    parent = PAGES[current].tab_of or current
    if bar is None or not all(map(bar.has_content, (*list_tabs(parent), parent))):
        return
    bar.tab_slot = st.empty()
    bar.draw()


def get_page(name: str) -> Any:
    """Return the st.Page called ``name``."""
    # With an icon the browser would request the tab icon from another host.
    page = partial(_render, name)
    return st.Page(page, title=get_title(name), url_path=name, default=name == "overview")


def _render(name: str) -> None:
    """Import and render a page."""
    import_module(get_module_name(name)).render()


def get_module_name(name: str) -> str:
    """The module of the page called ``name``."""
    return f"graphviz_dash.{PAGES[name].module}"


def list_pages() -> list[Any]:
    """Return all pages in navigation order."""
    return [get_page(name) for name in NAMES]


def get_title(name: str) -> str:
    """Title in the navigation."""
    return PAGES[name].title


def get_page_name(current: Any) -> str:
    """Return the name of a page from st.navigation; the default page's path is empty."""
    return current.url_path or "overview"


def draw_links(current: str, experiment: str | None) -> None:
    """Draw a link to each page, dim as last time if the page shows the same ``experiment``.

    Unlike Streamlit's navigation they keep the state: Streamlit drops the address's parameters and
    adds several history entries.
    """
    last_experiment, reasons = st.session_state.get(_REASONS, (None, None))
    bar = _Bar(st.empty(), current, reasons if experiment == last_experiment else None)
    st.session_state[_BAR] = bar
    bar.draw()


def carry_parameters(name: str, values: Mapping[str, str | None]) -> None:
    """Set parameters of a page for the next visit, and update the navigation bar; None removes
    one."""
    url_state.carry_parameters(name, values)
    bar: _Bar | None = st.session_state.get(_BAR)
    if bar is not None:
        bar.draw()


def dim_links(experiment: str, reasons: Mapping[str, str]) -> None:
    """Dim the links to pages without content for ``experiment``, by name, with the reason."""
    st.session_state[_REASONS] = (experiment, reasons)
    bar: _Bar | None = st.session_state.get(_BAR)
    if bar is not None:
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

    Streamlit's page links are three elements each. A script of
    :mod:`graphviz_dash.app.hosting.document` follows these.
    """
    parameters = urlencode(query, doseq=True)
    icon_markup = format_element("i", "", **{"data-icon": PAGES[name].icon, "aria-hidden": "true"})
    path = "./" if name == "overview" else f"./{name}"
    attributes = {"href": f"{path}?{parameters}" if parameters else path}
    if reason:
        attributes["title"] = reason
    if is_current:
        attributes["aria-current"] = "page"
    content = (icon_markup if icon else "") + format_text("span", label)
    return format_element("a", content, f"to-page {kind}".rstrip(), **attributes)


def show_link(name: str, label: str, query: Mapping[str, str | list[str]]) -> None:
    """Show a link to the page ``name``."""
    st.html(link_markup(name, label, query), width="content")
