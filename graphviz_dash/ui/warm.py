"""What Streamlit imports when the first component or table is drawn, imported before it is needed.

A component's data is looked at for tables, for which Streamlit imports pandas and pyarrow: 0.4 s
that the first visitor of a graph would wait for.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from typing import Final

_NEEDED: Final = ("pandas", "pyarrow")


@cache
def warm_up() -> threading.Thread:
    """Imports them beside the pages, once in a process."""
    thread = threading.Thread(target=_import, name="graphviz-dash warm-up", daemon=True)
    thread.start()
    return thread


def _import() -> None:
    for name in _NEEDED:
        import_module(name)
