"""The pages by name, the bar at the top that leads to them, and links between them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import element, show

_PAGES: Final = {
    "overview": ("Overview", ":material/dashboard:"),
    "compare": ("Compare", ":material/balance:"),
    "graphs": ("Graphs", ":material/stacked_line_chart:"),
    "graph": ("Graph", ":material/account_tree:"),
    "timeline": ("Timeline", ":material/view_timeline:"),
    "compile": ("Compile", ":material/conversion_path:"),
    "memory": ("Memory", ":material/memory:"),
    "ranks": ("Ranks", ":material/device_hub:"),
    "launch": ("Launch", ":material/rocket_launch:"),
    "doctor": ("Doctor", ":material/stethoscope:"),
    "export": ("Export", ":material/ios_share:"),
}

NAMES: Final = tuple(_PAGES)
"""The names of all pages, which are their paths, in the order of the navigation."""

_PLACES: Final = "page-links"
"""Where this run of a page has drawn the links to the others."""


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
    return f"graphviz_dash.ui.views.{name}"


def pages() -> list[Any]:
    """All pages in the order of the navigation."""
    return [page(name) for name in NAMES]


def title_of(name: str) -> str:
    """What the page called ``name`` is called in the navigation."""
    return _PAGES[name][0]


def name_of(current: Any) -> str:
    """The name of a page that st.navigation returned; the default page's path is empty."""
    return current.url_path or "overview"


def links(current: str) -> None:
    """A link to each page. They carry the state, as Streamlit's own navigation does not: it drops
    the address's parameters and adds several entries to the browser's history."""
    places = {}
    for name in _PAGES:
        key = "page-current" if name == current else f"page-{name}"
        with st.container(key=key, width="content"):
            places[name] = st.empty()
            _lead(places[name], name)
    st.session_state[_PLACES] = places


def carry(name: str, values: Mapping[str, str | None]) -> None:
    """Has the page called ``name`` show what was chosen on this one when it is next gone to:
    parameters of its address, None to leave one out. The bar, drawn before, leads there too."""
    url_state.carry(name, values)
    places: dict[str, DeltaGenerator] = st.session_state.get(_PLACES, {})
    if name in places:
        _lead(places[name], name)


def dim(reasons: Mapping[str, str]) -> None:
    """Dims the links of the bar to pages that have nothing to show, by name, with the reason."""
    places: dict[str, DeltaGenerator] = st.session_state.get(_PLACES, {})
    faint = ",".join(f".st-key-page-{name} a" for name in reasons if name in places)
    if faint:
        show(element("style", f"{faint}{{opacity:0.45}}"))
    for name, reason in reasons.items():
        if name in places:
            _lead(places[name], name, reason)


def _lead(container: DeltaGenerator, name: str, reason: str | None = None) -> None:
    title, icon = _PAGES[name]
    query = url_state.leading_to(name) if name != "overview" else {}
    container.page_link(page(name), label=title, icon=icon, query_params=query, help=reason)


def link(name: str, label: str, query: Mapping[str, str | list[str]], *, icon: bool = True) -> None:
    """A link to the page called ``name``, with its ``icon`` or without; ``label`` is Markdown."""
    shown = _PAGES[name][1] if icon else None
    st.page_link(page(name), label=label, query_params=dict(query), icon=shown)
