from __future__ import annotations

import pytest
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.app_session import AppSession

from graphviz_dash.app.hosting.browser_address import patch_sessions


class Session(AppSession):
    def __init__(self) -> None:
        self.begun: list[tuple[str, str]] = []
        """Page and query of each run."""

    def __del__(self) -> None:
        pass

    def ask(self, page: str, query: str, *, link: bool = False) -> tuple[str, str]:
        self.request_rerun(
            ClientState(page_script_hash=page, query_string=query, is_history_navigation=link)
        )
        return self.begun[-1]

    def tell(self, query: str) -> None:
        message = ForwardMsg()
        message.page_info_changed.query_string = query
        self._enqueue_forward_msg(message)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    def request(self: Session, asked: ClientState) -> None:
        self.begun.append((asked.page_script_hash, asked.query_string))

    monkeypatch.setattr(AppSession, "request_rerun", request)
    monkeypatch.setattr(AppSession, "_enqueue_forward_msg", lambda *_: None)
    patch_sessions()
    return Session()


def test_a_page_that_was_left_is_not_run_again(session: Session) -> None:
    assert session.ask("", "run=a") == ("", "run=a")
    assert session.ask("graph", "run=a") == ("graph", "run=a")
    assert session.ask("doctor", "run=b", link=True) == ("doctor", "run=b")
    assert session.ask("graph", "run=b") == ("doctor", "run=b")
    assert session.ask("doctor", "run=b") == ("doctor", "run=b")
    # A document that is loaded anew begins anew.
    assert session.ask("", "run=a") == ("", "run=a")
    assert session.ask("graph", "run=a") == ("graph", "run=a")


def test_a_choice_holds_before_the_browser_confirms_it(session: Session) -> None:
    session.ask("", "run=a")
    session.tell("run=b")
    assert session.ask("graph", "run=a") == ("graph", "run=b")
    session.ask("doctor", "run=c", link=True)
    # What it was told before reaches it now.
    assert session.ask("doctor", "run=b") == ("doctor", "run=c")
    session.tell("run=d")
    assert session.ask("graph", "run=c") == ("doctor", "run=d")
