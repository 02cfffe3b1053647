"""The row of a table of Streamlit's that the visitor picks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from graphviz_dash.ui.page import url_state


def picking(key: str, pick: Callable[[int | None], None]) -> Callable[[], None]:
    """What the table ``key`` is to call when a cell is selected, or none any more: ``pick`` with
    the cell's row, or None, while the visitor is still here."""

    def picked() -> None:
        state: Any = st.session_state.get(key)
        cells = state["selection"]["cells"] if state else []
        pick(cells[0][0] if cells else None)

    return url_state.while_here(picked)
