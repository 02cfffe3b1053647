"""The pages by name, the bar at the top that leads to them, and links between them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlencode

import streamlit as st
from msgspec import Struct
from streamlit.delta_generator import DeltaGenerator

from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import element, text
from graphviz_dash.ui.page.registry import PAGES

NAMES: Final = tuple(PAGES)
"""The names of all pages, which are their paths, in the order of the navigation."""

_BAR: Final = "page-links"
"""Where this run of a page has drawn the links to the others."""


class _Bar(Struct):
    """The links at the top of a page."""

    slot: DeltaGenerator
    current: str
    """The page that they stand on."""
    reasons: Mapping[str, str]
    """Why pages have nothing to show, by name."""

    def draw(self) -> None:
        """Draws them as the pages were left and are now."""
        links_of = (
            lead(
                name,
                title_of(name),
                url_state.leading_to(name) if name != "overview" else {},
                kind="dim" if name in self.reasons else "",
                reason=self.reasons.get(name, ""),
                is_current=name == self.current,
            )
            for name in PAGES
        )
        self.slot.html(element("nav", "".join(links_of), "pages"), width="content")


def page(name: str) -> Any:
    """The st.Page called ``name``, which is also its path in the address."""
    # With an icon of its own the browser would ask another host for it, for its tab.
    shown = partial(_render, name)
    return st.Page(shown, title=title_of(name), url_path=name, default=name == "overview")


def _render(name: str) -> None:
    """Imports a page when it is shown: the first one waits for no other."""
    import_module(module_of(name)).render()


def module_of(name: str) -> str:
    """The module of the page called ``name``."""
    return f"graphviz_dash.{PAGES[name].module}"


def pages() -> list[Any]:
    """All pages in the order of the navigation."""
    return [page(name) for name in NAMES]


def title_of(name: str) -> str:
    """What the page called ``name`` is called in the navigation."""
    return PAGES[name].title


def name_of(current: Any) -> str:
    """The name of a page that st.navigation returned; the default page's path is empty."""
    return current.url_path or "overview"


def links(current: str) -> None:
    """A link to each page. They carry the state, as Streamlit's own navigation does not: it drops
    the address's parameters and adds several entries to the browser's history."""
    bar = _Bar(st.empty(), current, {})
    st.session_state[_BAR] = bar
    bar.draw()


def carry(name: str, values: Mapping[str, str | None]) -> None:
    """Has the page called ``name`` show what was chosen on this one when it is next gone to:
    parameters of its address, None to leave one out. The bar, drawn before, leads there too."""
    url_state.carry(name, values)
    bar: _Bar | None = st.session_state.get(_BAR)
    if bar is not None:
        bar.draw()


def dim(reasons: Mapping[str, str]) -> None:
    """Dims the links of the bar to pages that have nothing to show, by name, with the reason."""
    bar: _Bar | None = st.session_state.get(_BAR)
    if bar is not None and reasons:
        bar.reasons = reasons
        bar.draw()


def lead(
    name: str,
    label: str,
    query: Mapping[str, str | list[str]],
    *,
    icon: bool = True,
    kind: str = "",
    reason: str = "",
    is_current: bool = False,
) -> str:
    """A link to the page called ``name``, as markup: its ``icon`` or none, its ``label``, which is
    text, and where there is one the ``reason`` for which nothing is to be seen there.

    One of Streamlit's page links for each would be three elements of a page and a Markdown
    document. A script that :mod:`graphviz_dash.app.hosting.document` puts on the page follows it.
    """
    parameters = urlencode(query, doseq=True)
    shown = element("i", "", **{"data-icon": PAGES[name].icon, "aria-hidden": "true"})
    path = "./" if name == "overview" else f"./{name}"
    given = {"href": f"{path}?{parameters}" if parameters else path}
    if reason:
        given["title"] = reason
    if is_current:
        given["aria-current"] = "page"
    content = (shown if icon else "") + element("span", text(label))
    return element("a", content, f"to-page {kind}".rstrip(), **given)


def link(name: str, label: str, query: Mapping[str, str | list[str]]) -> None:
    """Puts a link to the page called ``name`` on the page."""
    st.html(lead(name, label, query), width="content")
