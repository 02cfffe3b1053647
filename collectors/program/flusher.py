"""A thread that writes periodically with minimal effect on the program."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable
from typing import Final

_STOP_S: Final = 2.0
"""Maximum wait for a running write at the end of the program."""


class Flusher:
    """Calls ``write``, which must not raise, every ``interval_s`` seconds in a separate thread,
    until it is stopped or ``write`` returns True.

    The thread is unknown to ``threading``, so that a program that joins all threads does not wait
    for it. It receives no signals, which a program may have blocked to wait for them. A forked
    child starts its own.
    """

    def __init__(self, write: Callable[[], bool | None], interval_s: float) -> None:
        self._write = write
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._done = threading.Event()
        self.started = False

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: The system refuses another thread.
        """
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
        """Stop the thread. Returns when the last write ends or takes too long."""
        self._ended.set()
        if self.started:
            self._done.wait(_STOP_S)

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            if self._write():
                break
        self._done.set()
