"""The one switch for what leans on Streamlit's insides.

Off, Streamlit serves our pages as it serves any: its document unchanged, its files by its own
routes, its sockets as it opened them, no process and no thread beside it. The pages are the same,
a second later. For a version of Streamlit that these modules do not fit.
"""

from __future__ import annotations

import os
from typing import Final

PLAIN_VARIABLE: Final = "GRAPHVIZ_DASH_PLAIN_STREAMLIT"
"""Set to anything but 0, it switches off what leans on Streamlit's insides."""


def is_plain() -> bool:
    """Whether Streamlit is left as it is."""
    return os.environ.get(PLAIN_VARIABLE, "0") not in ("", "0")
