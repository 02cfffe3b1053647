"""How far long work has come, told by the work itself to whoever watches it, and its end on demand.

Work calls :func:`tell` between its pieces, and :func:`part` around what is a part of it; nothing
happens where nobody watches. A watcher ends the work by raising :class:`CancelledError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

Watcher: TypeAlias = Callable[[float], None]

_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


class CancelledError(Exception):
    """The work was cancelled; what it had made is lost, and nothing else is harmed."""


def tell(share: float) -> None:
    """Tells that ``share`` of the work, 0 to 1, is done.

    Raises:
        CancelledError: it is to end here.
    """
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(share)


@contextmanager
def part(place: int, count: int) -> Iterator[None]:
    """What is told inside is of part number ``place`` (from 0) of ``count`` equal ones."""
    outer = _WATCHER.get()
    if outer is None:
        yield
        return
    with watched(lambda share: outer((place + share) / count)):
        tell(0.0)
        yield


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """What is told inside goes to ``watcher``, in this thread only."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)
