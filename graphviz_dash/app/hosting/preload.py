"""What pages need is imported before it is needed, by threads beside those that answer."""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from typing import Final

from graphviz_dash.app.hosting.switch import is_plain
from graphviz_dash.ui.page.navigation import NAMES, module_of

_TABLES: Final = ("pandas", "pyarrow")
"""Streamlit looks for tables in the data of a component, and imports these for it: 0.4 s that the
first visitor of a graph would wait for."""


def preload(page: str) -> threading.Thread | None:
    """Imports what the script of ``page`` needs, which a browser has asked for: it still has to
    load the scripts of Streamlit's front end. None if there is no such page."""
    return _importing(module_of(page)) if page in NAMES else None


def preload_all() -> threading.Thread | None:
    """Imports what all pages and their components need, once the first page is sent; None where
    Streamlit is left as it is."""
    if is_plain():
        return None
    return _importing(
        *map(module_of, NAMES), "graphviz_dash.app.hosting.component_routes", *_TABLES
    )


@cache
def _importing(*names: str) -> threading.Thread:
    thread = threading.Thread(
        target=lambda: [import_module(name) for name in names],
        name="graphviz-dash imports",
        daemon=True,
    )
    thread.start()
    return thread
