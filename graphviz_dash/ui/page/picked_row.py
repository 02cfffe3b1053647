"""Handle the selected row of a Streamlit table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from graphviz_dash.ui.page import url_state


def build_selection_callback(key: str, pick: Callable[[int | None], None]) -> Callable[[], None]:
    """Return a callback that passes the selected row of the table ``key``, or None, to ``pick``."""

    def handle_selection() -> None:
        state: Any = st.session_state.get(key)
        cells = state["selection"]["cells"] if state else []
        pick(cells[0][0] if cells else None)

    return url_state.only_on_this_page(handle_selection)
