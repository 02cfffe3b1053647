"""The pages by name, for the navigation and for links between them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import streamlit as st

_PAGES: Final = {
    "overview": ("Overview", ":material/dashboard:"),
    "compare": ("Compare", ":material/balance:"),
    "graph": ("Graph", ":material/account_tree:"),
    "timeline": ("Timeline", ":material/view_timeline:"),
    "export": ("Export", ":material/ios_share:"),
}


def page(name: str) -> Any:
    """The st.Page called ``name``, which is also its path in the address."""
    title, icon = _PAGES[name]
    # Imported here: pages link to each other through this module.
    render = import_module(f"graphviz_dash.ui.views.{name}").render
    return st.Page(render, title=title, icon=icon, url_path=name, default=name == "overview")


def pages() -> list[Any]:
    """All pages in the order of the navigation."""
    return [page(name) for name in _PAGES]
