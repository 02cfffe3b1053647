"""A thread that writes periodically with minimal effect on the program."""

from __future__ import annotations

import _thread
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

_STOP_S: Final = 2.0
"""Maximum wait for a running write at the end of the program."""
_PAUSE_S: Final = 0.1
"""Maximum wait for a running write before a fork."""
_POLL_S: Final = 0.0001
_THREADS: Final = Path("/proc/self/task")


class Flusher:
    """Calls ``write``, which must not raise, every ``interval_s`` seconds in a separate thread,
    until it is stopped or ``write`` returns True.

    The thread is unknown to ``threading``, so that a program that joins all threads does not wait
    for it. It receives no signals, which a program may have blocked to wait for them. A forked
    child starts its own; see :func:`pause_before_fork`.
    """

    def __init__(self, write: Callable[[], bool | None], interval_s: float) -> None:
        self._write = write
        self._interval_s = interval_s
        self._ends = False
        self._wake = threading.Lock()
        """Locked, except to wake the thread. A single call into C waits for it; an event's wait
        consists of ten functions of Python."""
        self._wake.acquire()
        self._done = threading.Event()
        self._ending = threading.Lock()
        self._thread_id = 0
        self.is_paused = False
        self.started = False

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: The system refuses another thread.
        """
        self.started = True
        _FLUSHERS.add(self)
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
        self._end()
        self.is_paused = False
        if self.started:
            self._done.wait(_STOP_S)
        _FLUSHERS.discard(self)

    @property
    def is_running(self) -> bool:
        """True while the thread exists."""
        return self.started and not self._done.is_set()

    def pause(self) -> None:
        """Stop the thread until :meth:`resume`. Waits a moment for its end."""
        self.is_paused = True
        self._end()
        deadline = time.monotonic() + _PAUSE_S
        self._done.wait(_PAUSE_S)
        # Its last call lets this thread run before the system has ended it.
        thread = _THREADS / str(self._thread_id)
        while thread.exists() and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def resume(self) -> None:
        """Let the thread continue after :meth:`pause`, or start it again."""
        if not self.is_paused:
            return
        self.is_paused = False
        with self._ending:
            self._ends = False
            restarts = self._done.is_set()
        if restarts:
            self._done.clear()
            with suppress(RuntimeError):  # the end of the program writes everything
                self.start()

    def _end(self) -> None:
        self._ends = True
        with suppress(RuntimeError):  # it is awake already
            self._wake.release()

    def _run(self) -> None:
        self._thread_id = threading.get_native_id()
        wait, interval_s = self._wake.acquire, self._interval_s
        while True:
            if not wait(True, interval_s):
                if not self._write():
                    continue
                self._done.set()
                return
            with self._ending:
                if self._ends:
                    self._done.set()
                    return


_FLUSHERS: Final[set[Flusher]] = set()


def pause_before_fork() -> None:
    """Stop the threads before a fork, unless the program has other threads.

    From Python 3.12 on, a fork of a process with several threads is a warning, and an error with
    ``-W error``.
    """
    flushers = [flusher for flusher in tuple(_FLUSHERS) if flusher.is_running]
    try:
        count = len(os.listdir(_THREADS))
    except OSError:
        return
    if flushers and count == 1 + len(flushers):
        for flusher in flushers:
            flusher.pause()


def clear_after_fork() -> None:
    """Forget the threads of the parent in a child, which must not start them."""
    _FLUSHERS.clear()


def _resume_all(_argument: object) -> int:
    for flusher in tuple(_FLUSHERS):
        flusher.resume()
    return 0


_RESUME: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_resume_all)

resume_after_fork: Final = partial(ctypes.pythonapi.Py_AddPendingCall, _RESUME, None)
"""Starts the stopped threads again in the parent, when Python continues after the fork.

Python 3.13 counts threads after the functions of :func:`os.register_at_fork`. A function in Python
would run the pending call too early.
"""
