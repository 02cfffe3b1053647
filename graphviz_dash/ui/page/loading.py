"""Show progress, remaining time and a stop button while traces are read for the first time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import streamlit as st

from graphviz_dash.model.run import Experiment
from graphviz_dash.progress import watch
from graphviz_dash.ui.page.markup import escape_markdown
from graphviz_dash.ui.state.store import STORE

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

_DELAY_SECONDS: Final = 0.7
"""Seconds before the progress bar appears."""

_UPDATE_SECONDS: Final = 0.25
"""Seconds between updates, each a message to the browser."""

_STOPPED: Final = "reading-stopped"


def load_experiment(key: str, name: str) -> Experiment | None:
    """Load the experiment ``key`` called ``name``; None if the visitor stopped loading.

    Leaving the page stops loading too: Streamlit ends the script at its next message.

    Raises:
        InputError: a bundle cannot be read.
        WorkerError: a reader process failed.
    """
    if st.session_state.get(_STOPPED) == key:
        return None
    # Always present, so that later elements keep their position and components their state.
    slot = st.container(key="reading")
    if STORE.is_loaded(key):
        return STORE.load_experiment_of_key(key)
    bar_slot = slot.empty()
    with (
        slot,
        st.spinner(f"Loading {escape_markdown(name)}", show_time=True),
        watch(_ProgressBar(bar_slot, key).update),
    ):
        experiment = STORE.load_experiment_of_key(key)
    bar_slot.empty()
    return experiment


def show_load_button() -> None:
    """Show a button that restarts loading."""
    st.button("Load", key="read-anew", on_click=_resume)


def _resume() -> None:
    del st.session_state[_STOPPED]


def _stop(key: str) -> None:
    st.session_state[_STOPPED] = key


class _ProgressBar:
    def __init__(self, container: DeltaGenerator, key: str) -> None:
        self._container = container
        self._key = key
        self._start = time.monotonic()
        self._next = self._start + _DELAY_SECONDS
        self._bar: DeltaGenerator | None = None

    def update(self, share: float) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _UPDATE_SECONDS
        if self._bar is None:
            with self._container.container():
                self._bar = st.progress(0.0)
                st.button("Stop loading", key="stop-reading", on_click=_stop, args=(self._key,))
        text = f"{share:.0%}"
        if share > 0.02:
            text += f", {(now - self._start) * (1 - share) / share:,.0f} s left"
        self._bar.progress(min(share, 1.0), text)
