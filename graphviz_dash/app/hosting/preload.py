"""Import the modules of pages in background threads before they are needed."""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from typing import Final

from graphviz_dash.app.hosting.switch import is_plain
from graphviz_dash.ui.page.navigation import NAMES, get_module_name

_TABLES: Final = ("pandas", "pyarrow")
"""Imported by Streamlit for component data; the first visitor of a graph would wait 0.4 s."""


def preload(page: str) -> threading.Thread | None:
    """Import the modules of a requested ``page`` while the browser loads Streamlit's scripts.

    None if there is no such page.
    """
    return _import_in_background(get_module_name(page)) if page in NAMES else None


def preload_all() -> threading.Thread | None:
    """Import the modules of all pages and components after the first page; None in plain mode."""
    if is_plain():
        return None
    return _import_in_background(
        *map(get_module_name, NAMES), "graphviz_dash.app.hosting.component_routes", *_TABLES
    )


@cache
def _import_in_background(*names: str) -> threading.Thread:
    thread = threading.Thread(
        target=lambda: [import_module(name) for name in names],
        name="graphviz-dash imports",
        daemon=True,
    )
    thread.start()
    return thread
