"""Limit the messages per websocket, because each one reruns a page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MAX_BURST: Final = 20
"""Messages that are never delayed; a page sends one per interaction."""
_RATE: Final = 5.0
"""Messages per second afterwards. The server needs 12 ms of CPU time for each."""
_MAX_DELAYED: Final = 40
"""Consecutive delayed messages that close a socket."""
_POLICY_VIOLATION: Final = 1008


class MessageLimit:
    """Middleware that delays the messages of a flooding websocket, then closes it.

    Args:
        app: next application.
        clock: current time in seconds.
        sleep: wait for this many seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._app = app
        self._clock = clock
        self._sleep = sleep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; only websockets are limited."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        budget, last_s, delayed_count = float(_MAX_BURST), self._clock(), 0

        async def receive_limited() -> Message:
            nonlocal budget, last_s, delayed_count
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            now_s = self._clock()
            budget = min(budget + (now_s - last_s) * _RATE, _MAX_BURST) - 1
            last_s = now_s
            if budget >= 0:
                delayed_count = 0
                return message
            delayed_count += 1
            if delayed_count > _MAX_DELAYED:
                return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}
            await self._sleep(-budget / _RATE)
            return message

        await self._app(scope, receive_limited, send)
