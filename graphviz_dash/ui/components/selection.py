"""The selection in a component, set by the reader or by the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import streamlit as st
from msgspec import Struct

T = TypeVar("T")


class _Memory(Struct, Generic[T]):
    """The last state of a session: click, selection of the page, and result."""

    click: object
    asked: T | None
    outcome: T | None


def latest_selection(
    slot: str, click: Any, asked: T | None, read: Callable[[dict[str, Any]], T | None]
) -> T | None:
    """Return the newer selection: the ``click`` decoded by ``read``, or ``asked`` by the page.

    Every run of the script gets both again, so the one that changed since the last run counts.
    ``slot`` names the session state that remembers both.
    """
    if not isinstance(click, dict):
        st.session_state.pop(slot, None)
        return asked
    memory: _Memory[T] | None = st.session_state.get(slot)
    if memory is None or click != memory.click:
        memory = _Memory(click, asked, read(click))
    elif asked != memory.asked:
        # None counts too: going back in the browser's history clears the selection.
        memory = _Memory(click, asked, asked)
    st.session_state[slot] = memory
    return memory.outcome
