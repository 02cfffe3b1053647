"""What is selected in a component, which its reader and its page both say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import streamlit as st
from msgspec import Struct

T = TypeVar("T")


class _Memory(Struct, Generic[T]):
    """What a session last saw: the click, what the page asked for, the outcome."""

    click: object
    asked: T | None
    outcome: T | None


def latest_selection(
    slot: str, click: Any, asked: T | None, read: Callable[[dict[str, Any]], T | None]
) -> T | None:
    """What was selected last: by a ``click`` of the reader, which ``read`` understands, or by the
    page, which has ``asked`` anew; ``slot`` of the session's state remembers both.

    Both reach every run of the script again and again, so what counts is which of them changed.
    """
    if not isinstance(click, dict):
        st.session_state.pop(slot, None)
        return asked
    memory: _Memory[T] | None = st.session_state.get(slot)
    if memory is None or click != memory.click:
        memory = _Memory(click, asked, read(click))
    elif asked != memory.asked:
        # Also to None: going back in the browser's history takes the selection back.
        memory = _Memory(click, asked, asked)
    st.session_state[slot] = memory
    return memory.outcome
