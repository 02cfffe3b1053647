"""The selection in a component, set by the reader or by the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import streamlit as st
from msgspec import Struct

T = TypeVar("T")


class _SelectionState(Struct, Generic[T]):
    """The last state of a session: click, selection of the page, and result."""

    click: object
    page_selection: T | None
    selection: T | None


def resolve_selection(
    slot: str, click: Any, page_selection: T | None, decode: Callable[[dict[str, Any]], T | None]
) -> T | None:
    """Return the newer selection: the decoded ``click``, or that of the page.

    Every run gets both again, so the one that changed since the last run counts. ``slot`` names the
    session state that remembers both.
    """
    if not isinstance(click, dict):
        st.session_state.pop(slot, None)
        return page_selection
    memory: _SelectionState[T] | None = st.session_state.get(slot)
    if memory is None or click != memory.click:
        memory = _SelectionState(click, page_selection, decode(click))
    elif page_selection != memory.page_selection:
        # None counts too: going back in the browser's history clears the selection.
        memory = _SelectionState(click, page_selection, page_selection)
    st.session_state[slot] = memory
    return memory.selection
