"""A visitor has left some time after his last page was closed, and not when he came back."""

from __future__ import annotations

import threading

import pytest

from graphviz_dash.ui.state.presence import Presence


class Pending(threading.Timer):
    """A timer whose time has come when the test says so."""

    begun: list[Pending]

    def start(self) -> None:
        assert self.daemon
        Pending.begun.append(self)

    def come(self) -> None:
        self.function(*self.args)


@pytest.fixture
def left() -> list[str]:
    Pending.begun = []
    return []


@pytest.fixture
def presence(left: list[str]) -> Presence:
    return Presence(left.append, timer=Pending)


def test_who_closes_his_last_page_has_left(presence: Presence, left: list[str]) -> None:
    with presence.page("me"):
        with presence.page("me"), presence.page("other"):
            pass
        (timer,) = Pending.begun
        assert list(timer.args) == ["other"]
    mine, other = Pending.begun[1], Pending.begun[0]
    assert left == []
    other.come()
    mine.come()
    assert left == ["other", "me"]


def test_who_comes_back_has_not(presence: Presence, left: list[str]) -> None:
    with presence.page("me"):
        pass
    with presence.page("me"):
        Pending.begun[0].come()
        assert left == []
    Pending.begun[1].come()
    assert left == ["me"]


def test_a_page_that_fails_is_closed_too(presence: Presence, left: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), presence.page("me"):
        raise ZeroDivisionError
    Pending.begun[0].come()
    assert left == ["me"]
