"""Two runs of one session, as at a quick rerun, take turns with its state."""

from __future__ import annotations

import threading

import pytest
from streamlit.runtime.state import SafeSessionState, SessionState

from graphviz_dash.ui.hosting.session_locks import share_locks


def test_the_next_run_waits_while_the_last_one_copies_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SafeSessionState, "__init__", SafeSessionState.__init__)
    share_locks()

    class Watched(SessionState):
        def _get_widget_id(self, key: str) -> str:
            if key == "a":
                threading.Thread(target=write).start()
                written.wait(0.02)
            return super()._get_widget_id(key)

    state = Watched()
    last, following = (SafeSessionState(state, lambda: None) for _ in range(2))
    for key in "abc":
        last[key] = key
    written = threading.Event()

    def write() -> None:
        following["more"] = "more"
        written.set()

    assert last.filtered_state == {"a": "a", "b": "b", "c": "c"}
    assert written.wait(10)
    assert following["more"] == "more"
