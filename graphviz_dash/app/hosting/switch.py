"""Switch off everything that depends on Streamlit's internals.

With the switch set, Streamlit serves our pages like any others: unchanged document, its own file
routes and sockets, no extra process or thread. The pages are the same, a second slower. Use it for
incompatible versions of Streamlit.
"""

from __future__ import annotations

import os
from typing import Final

PLAIN_VARIABLE: Final = "GRAPHVIZ_DASH_PLAIN_STREAMLIT"
"""Any value but 0 switches off everything that depends on Streamlit's internals."""


def is_plain() -> bool:
    """Return True in plain Streamlit mode."""
    return os.environ.get(PLAIN_VARIABLE, "0") not in ("", "0")
