from __future__ import annotations

from types import SimpleNamespace

import pytest

from graphviz_dash.ui.page import url_state


class Visit:
    """The page of a visitor, and the page that a rerun requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state: dict[str, object] = {}
        self.query = {"experiment": "step"}
        self.pages = SimpleNamespace(intended_page_script_hash="")
        self.run = SimpleNamespace(page_script_hash="graph", pages_manager=self.pages)
        streamlit = SimpleNamespace(session_state=self.state)
        monkeypatch.setattr(url_state, "st", streamlit)
        monkeypatch.setattr(url_state, "_get_context", lambda: self.run)
        monkeypatch.setattr(url_state, "get_value", self.query.get)
        monkeypatch.setattr(url_state, "get_parameters", dict)
        monkeypatch.setattr(url_state, "_send_address", lambda _: None)
        url_state.sync_address()


@pytest.mark.parametrize(("asked", "count"), [("graph", 1), ("", 1), ("doctor", 0)])
def test_a_request_for_the_next_page_may_say_what_was_picked_on_this_one(
    monkeypatch: pytest.MonkeyPatch, asked: str, count: int
) -> None:
    visit = Visit(monkeypatch)
    picked: list[int] = []
    pick = url_state.only_on_this_page(picked.append)
    visit.pages.intended_page_script_hash = asked
    pick(3)
    assert len(picked) == count


def test_another_experiment_is_another_place(monkeypatch: pytest.MonkeyPatch) -> None:
    visit = Visit(monkeypatch)
    picked: list[int] = []
    pick = url_state.only_on_this_page(picked.append)
    visit.query["experiment"] = "branches"
    pick(3)
    assert picked == []
