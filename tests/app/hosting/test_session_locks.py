from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from streamlit.runtime.scriptrunner_utils.exceptions import StopException
from streamlit.runtime.state import SafeSessionState, SessionState

from graphviz_dash.app.hosting.session_locks import patch_session_locks


@pytest.fixture(autouse=True)
def _shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SafeSessionState, "__init__", SafeSessionState.__init__)
    patch_session_locks()


def test_the_next_run_waits_while_the_last_one_copies_the_state() -> None:
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


def test_a_run_that_is_ended_while_it_waits_writes_nothing() -> None:
    asked, is_ended = threading.Event(), threading.Event()

    def end_if_asked() -> None:
        asked.set()
        if is_ended.is_set():
            raise StopException

    state = SessionState()
    last = SafeSessionState(state, end_if_asked)
    following = SafeSessionState(state, lambda: None)

    def go_on() -> None:
        with suppress(StopException), last.query_params() as address:
            address.set_with_no_forward_msg("experiment", "last")

    run = threading.Thread(target=go_on)
    with following.query_params() as address:
        address.set_with_no_forward_msg("experiment", "following")
        run.start()
        assert asked.wait(10)
        is_ended.set()
    run.join(10)
    assert address.to_dict() == {"experiment": "following"}
    # Its turn is not kept from others.
    following["more"] = "more"
