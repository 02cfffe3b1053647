"""Which visitors have a page open, told by the sockets that pages hold."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from graphviz_dash.ui.state.held_uploads import HELD

GRACE_S: Final = 60.0
"""How long a visitor without a page may come back: reloads, and pages of other sites, take him away
for a moment."""


def _after_grace(act: Callable[[], None]) -> None:
    """Has a thread do ``act`` in a while; called in the server's event loop."""
    loop = asyncio.get_running_loop()
    loop.call_later(GRACE_S, loop.run_in_executor, None, act)


class Presence:
    """Pages that are open by visitor."""

    def __init__(
        self,
        left: Callable[[str], None],
        after_grace: Callable[[Callable[[], None]], None] = _after_grace,
    ) -> None:
        self._left = left
        self._after_grace = after_grace
        self._lock = threading.Lock()
        self._pages: Counter[str] = Counter()

    @contextmanager
    def page(self, visitor: str) -> Iterator[None]:
        """A page of ``visitor``, open inside. Some time after the last one ``left(visitor)`` is
        called, unless he came back."""
        with self._lock:
            self._pages[visitor] += 1
        try:
            yield
        finally:
            with self._lock:
                self._pages[visitor] -= 1
                is_last = not self._pages[visitor]
            if is_last:
                self._after_grace(partial(self._look, visitor))

    def _look(self, visitor: str) -> None:
        with self._lock:
            if self._pages.get(visitor) != 0:
                return
            del self._pages[visitor]
        self._left(visitor)


def _left(visitor: str) -> None:
    HELD.release(visitor)
    # Who answers first of all does not wait for what reads uploads.
    from graphviz_dash.ui.state.uploads import UPLOADS

    UPLOADS.leave(visitor)


PRESENCE: Final = Presence(_left)


VISITOR_HEADER: Final = "x-graphviz-dash-visitor"
"""The header by which pages and routes are given the visitor; nobody else can set it."""
