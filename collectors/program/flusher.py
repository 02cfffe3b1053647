"""A thread that writes now and then, of which a program notices as little as can be."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable
from typing import Final

_STOP_S: Final = 2.0
"""How long the end of a program waits at most for a write that is under way."""


class Flusher:
    """Calls ``write``, which must not raise, every ``interval_s`` seconds in a thread of its own,
    until it is stopped.

    The thread is none of ``threading``'s, so that a program that joins all of its threads does not
    wait for it, and it takes no signals, which a program may have blocked to wait for them. A fork
    leaves it behind: the child begins one of its own.
    """

    def __init__(self, write: Callable[[], None], interval_s: float) -> None:
        self._write = write
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._done = threading.Event()
        self.started = False

    def start(self) -> None:
        """Begins. RuntimeError where the system grants no further thread."""
        self.started = True
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            self._done.set()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def stop(self) -> None:
        """Ends; returns when the last write is over, or takes too long."""
        self._ended.set()
        if self.started:
            self._done.wait(_STOP_S)

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._write()
        self._done.set()
