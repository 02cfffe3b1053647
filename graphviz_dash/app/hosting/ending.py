"""How the server ends: at a signal, within seconds whatever it does, or with who started it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

_DEADLINE_S: Final = 5.0
"""How long answers that are under way may take after a signal."""
_DESCRIPTORS: Final = 65_536
"""What the soft limit is raised to, as far as the hard one allows."""
_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)


def end_at_signals(clean: Callable[[], None]) -> None:
    """Has SIGTERM, SIGINT and SIGHUP end the process: as the server does it, and where that takes
    longer than some seconds at once, after ``clean``. Signals are the main thread's: a server that
    runs in another one, as in a test, is ended by whoever runs it."""
    if threading.current_thread() is not threading.main_thread():
        return
    end = signal.getsignal(signal.SIGTERM)

    def ending(number: int, frame: FrameType | None) -> None:
        timer = threading.Timer(_DEADLINE_S, _end_now, args=(clean, number))
        timer.daemon = True
        timer.start()
        if callable(end):
            end(number, frame)
        else:
            _end_now(clean, number)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has SIGHUP
            signal.signal(number, ending)


def _end_now(clean: Callable[[], None], number: int) -> None:
    clean()
    os._exit(128 + number)


def end_with_starter(descriptor: int = 0) -> threading.Thread:
    """Sends this process SIGTERM when the pipe ``descriptor`` ends, which is when nobody holds its
    other end: whoever started us was killed."""

    def waiting() -> None:
        with suppress(OSError):
            while os.read(descriptor, 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=waiting, name="graphviz-dash starter", daemon=True)
    thread.start()
    return thread


def raise_descriptor_limit() -> int | None:
    """Raises the soft limit of open descriptors, 256 on some systems; returns what it is then, None
    where there is none."""
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
