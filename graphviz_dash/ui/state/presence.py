"""Which visitors have a page open, told by the sockets that pages hold."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

GRACE_S: Final = 60.0
"""How long a visitor without a page may come back: reloads, and pages of other sites, take him away
for a moment."""


class Presence:
    """Pages that are open by visitor; safe to use from threads."""

    def __init__(
        self, left: Callable[[str], None], timer: type[threading.Timer] = threading.Timer
    ) -> None:
        self._left = left
        self._timer = timer
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
                timer = self._timer(GRACE_S, self._look, args=(visitor,))
                timer.daemon = True
                timer.start()

    def _look(self, visitor: str) -> None:
        with self._lock:
            if self._pages[visitor]:
                return
            del self._pages[visitor]
        self._left(visitor)


def _left(visitor: str) -> None:
    # Who answers first of all does not wait for what reads uploads.
    from graphviz_dash.ui.state.uploads import UPLOADS

    UPLOADS.leave(visitor)


PRESENCE: Final = Presence(_left)
