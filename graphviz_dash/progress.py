"""Report progress of long work to a watcher, which may cancel it.

Reports do nothing without a watcher. A watcher cancels the work by raising :class:`CancelledError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

Watcher: TypeAlias = Callable[[float], None]

_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


class CancelledError(Exception):
    """The work was cancelled; its partial result is discarded."""


def report_progress(share: float) -> None:
    """Report that ``share`` of the work, 0 to 1, is done.

    Raises:
        CancelledError: the watcher cancels the work.
    """
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(share)


@contextmanager
def report_subtask(index: int, count: int) -> Iterator[None]:
    """Report progress inside the block as that of subtask ``index`` (from 0) of ``count``."""
    outer = _WATCHER.get()
    if outer is None:
        yield
        return
    with watch(lambda share: outer((index + share) / count)):
        report_progress(0.0)
        yield


@contextmanager
def watch(watcher: Watcher) -> Iterator[None]:
    """Send progress reported inside the block to ``watcher``, in this thread only."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)
