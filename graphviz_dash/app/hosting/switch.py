"""Switch off everything that depends on Streamlit's internals.

With the switch set, Streamlit serves our pages like any others. They are the same, a second slower.
Use it for incompatible versions of Streamlit.

Without the switch, each patch checks the names that it uses. If one is missing, only this patch is
off and the server reports it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final

PLAIN_VARIABLE: Final = "GRAPHVIZ_DASH_PLAIN_STREAMLIT"
"""Any value but 0 sets the switch."""


def is_plain() -> bool:
    """Return True in plain Streamlit mode."""
    return os.environ.get(PLAIN_VARIABLE, "0") not in ("", "0")


def apply_patch(patch: Callable[[], None], purpose: str) -> bool:
    """Apply ``patch``; report and return False if a name is missing.

    A patch raises ImportError or AttributeError before it changes anything.
    """
    try:
        patch()
    except (ImportError, AttributeError) as error:
        import streamlit

        print(
            f"graphviz-dash does not {purpose}: Streamlit {streamlit.__version__} has changed "
            f"({error}). The pages work without it.",
            file=sys.stderr,
        )
        return False
    return True
