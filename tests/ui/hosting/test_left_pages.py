"""What still comes from a page that was left does not bring the visitor back to it."""

from __future__ import annotations

import pytest
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession

from graphviz_dash.ui.hosting.left_pages import keep_to_pages


class Session(AppSession):
    """A session of which nothing is but who it is."""

    def __init__(self) -> None:
        pass

    def __del__(self) -> None:
        pass


def test_only_a_link_and_a_new_document_lead_to_another_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[ClientState | None] = []

    def request(_: AppSession, asked: ClientState | None) -> None:
        begun.append(asked)

    monkeypatch.setattr(AppSession, "request_rerun", request)
    keep_to_pages()
    session = Session()

    def ask(page: str, *, link: bool = False) -> ClientState:
        asked = ClientState(page_script_hash=page, is_history_navigation=link)
        session.request_rerun(asked)
        return asked

    opened, chosen = ask(""), ask("graph")
    assert begun == [opened, chosen]
    went = ask("doctor", link=True)
    ask("graph")
    assert begun[-2:] == [went, went]
    assert begun[-1] is went
    chosen = ask("doctor")
    assert begun[-1] is chosen
    # The connection was lost with what the server knew of the document.
    ask("")
    chosen = ask("graph")
    assert begun[-1] is chosen
    session.request_rerun(None)
    assert begun[-1] is None
