"""Progress of long work, reported by the work itself to whoever watches it, and its cancellation.

Work calls :func:`report` between its pieces, and :func:`subtask` around what is a part of it;
nothing happens where nobody watches. A watcher ends the work by raising :class:`CancelledError`.
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


def report(share: float) -> None:
    """Reports that ``share`` of the work, 0 to 1, is done.

    Raises:
        CancelledError: it is to end here.
    """
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(share)


@contextmanager
def subtask(index: int, count: int) -> Iterator[None]:
    """What is reported inside is the progress of subtask ``index`` (from 0) of ``count`` equal
    ones."""
    outer = _WATCHER.get()
    if outer is None:
        yield
        return
    with watched(lambda share: outer((index + share) / count)):
        report(0.0)
        yield


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """What is reported inside goes to ``watcher``, in this thread only."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)
