from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from graphviz_dash.ui.state import presence as module
from graphviz_dash.ui.state.presence import OpenPages


@pytest.fixture
def left() -> list[str]:
    return []


@pytest.fixture
def later() -> list[Callable[[], None]]:
    """Callbacks, run at the time that the test sets."""
    return []


@pytest.fixture
def presence(left: list[str], later: list[Callable[[], None]]) -> OpenPages:
    return OpenPages(left.append, later.append)


def test_a_visitor_leaves_with_the_last_page(
    presence: OpenPages, left: list[str], later: list[Callable[[], None]]
) -> None:
    with presence.register_page("me"):
        with presence.register_page("me"), presence.register_page("other"):
            pass
        assert len(later) == 1
    assert left == []
    for act in later:
        act()
    assert left == ["other", "me"]


def test_a_visitor_who_returns_has_not_left(
    presence: OpenPages, left: list[str], later: list[Callable[[], None]]
) -> None:
    with presence.register_page("me"):
        pass
    with presence.register_page("me"):
        later[0]()
        assert left == []
    later[1]()
    assert left == ["me"]


def test_a_visitor_who_left_twice_is_reported_once(
    presence: OpenPages, left: list[str], later: list[Callable[[], None]]
) -> None:
    for _ in range(2):
        with presence.register_page("me"):
            pass
    for act in later:
        act()
    assert left == ["me"]


def test_a_page_that_fails_is_closed_too(
    presence: OpenPages, left: list[str], later: list[Callable[[], None]]
) -> None:
    with pytest.raises(ZeroDivisionError), presence.register_page("me"):
        raise ZeroDivisionError
    later[0]()
    assert left == ["me"]


def test_the_loop_of_the_server_waits_and_a_thread_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)

    async def visit() -> str:
        loop = asyncio.get_running_loop()
        gone: asyncio.Future[str] = loop.create_future()

        def left(visitor: str) -> None:
            loop.call_soon_threadsafe(gone.set_result, visitor)

        presence = OpenPages(left)
        with presence.register_page("me"):
            assert not gone.done()
        return await asyncio.wait_for(gone, 30)

    # In a thread of its own: a browser's driver has a loop in that of the tests.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, visit()).result(60) == "me"
