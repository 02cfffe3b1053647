"""Track visitors with open pages, through the websockets of their pages."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

GRACE_S: Final = 60.0
"""Seconds that a visitor may be without a page, for example during a reload."""


def _schedule_after_grace(act: Callable[[], None]) -> None:
    """Run ``act`` in a thread after the grace period; call in the event loop."""
    loop = asyncio.get_running_loop()
    loop.call_later(GRACE_S, loop.run_in_executor, None, act)


class OpenPages:
    """Open pages by visitor."""

    def __init__(
        self,
        left: Callable[[str], None],
        after_grace: Callable[[Callable[[], None]], None] = _schedule_after_grace,
    ) -> None:
        self._left = left
        self._after_grace = after_grace
        self._lock = threading.Lock()
        self._pages: Counter[str] = Counter()

    @contextmanager
    def register_page(self, visitor: str) -> Iterator[None]:
        """Register a page of ``visitor`` while the block runs.

        After the last page and the grace period, ``left(visitor)`` is called unless the visitor
        returned.
        """
        with self._lock:
            self._pages[visitor] += 1
        try:
            yield
        finally:
            with self._lock:
                self._pages[visitor] -= 1
                is_last = not self._pages[visitor]
            if is_last:
                self._after_grace(partial(self._check_visitor, visitor))

    def _check_visitor(self, visitor: str) -> None:
        with self._lock:
            if self._pages.get(visitor) != 0:
                return
            del self._pages[visitor]
        self._left(visitor)


def _release_visitor(visitor: str) -> None:
    # Imports the upload reader, which the first response does not need.
    from graphviz_dash.ui.state.uploads import UPLOADS

    UPLOADS.remove_visitor(visitor)


OPEN_PAGES: Final = OpenPages(_release_visitor)


VISITOR_HEADER: Final = "x-graphviz-dash-visitor"
"""Header with the visitor; only the server can set it."""
