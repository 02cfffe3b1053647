from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from starlette.types import Message, Receive, Scope, Send

from graphviz_dash.app.hosting.message_limit import MessageLimit


def count_messages(interval_s: float, count: int) -> tuple[int, float, bool]:
    """Send ``count`` messages; return the number that arrived, the total delay and True if the
    socket was closed."""
    now_s, delay_s, arrived = [0.0], [0.0], [0]
    closed = [False]

    async def sleep(seconds: float) -> None:
        now_s[0] += seconds
        delay_s[0] += seconds

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "websocket.receive":
            arrived[0] += 1
        closed[0] = True

    left = [count]

    async def receive() -> Message:
        now_s[0] += interval_s
        left[0] -= 1
        if left[0] < 0:
            raise StopAsyncIteration
        return {"type": "websocket.receive", "bytes": b""}

    async def send(_: Message) -> None:
        pass

    limit = MessageLimit(app, clock=lambda: now_s[0], sleep=sleep)

    async def run() -> None:
        with suppress(StopAsyncIteration):
            await limit({"type": "websocket"}, receive, send)

    # In another thread: browser tests leave a running loop in the main thread.
    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, run()).result()
    return arrived[0], delay_s[0], closed[0]


def test_a_reader_who_clicks_and_drags_is_not_delayed() -> None:
    assert count_messages(0.3, 1_000) == (1_000, 0.0, False)
    assert count_messages(0.0, 20) == (20, 0.0, False)


def test_a_flood_is_delayed_and_ended() -> None:
    arrived, delay_s, closed = count_messages(0.0, 5_000)
    assert arrived == 60
    assert 7.9 < delay_s < 8.1
    assert closed


def test_a_short_flood_ends_without_harm() -> None:
    arrived, delay_s, closed = count_messages(0.0, 40)
    assert (arrived, closed) == (40, False)
    assert 3.9 < delay_s < 4.1
