"""Shut the server down on signals, within seconds, or when its parent process ends."""

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
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

_DEADLINE_S: Final = 5.0
"""Seconds for requests in progress after a signal."""
_DESCRIPTORS: Final = 65_536
"""New soft limit, if the hard limit allows it."""
_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)


def handle_signals(clean: Callable[[], None]) -> None:
    """Shut down on SIGTERM, SIGINT and SIGHUP.

    After some seconds the process calls ``clean`` and exits immediately. Only the main thread
    handles signals; other servers, as in a test, must be stopped by their owner.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    shut_down = signal.getsignal(signal.SIGTERM)

    def handle_signal(number: int, frame: FrameType | None) -> None:
        timer = threading.Timer(_DEADLINE_S, _exit_now, args=(clean, number))
        timer.daemon = True
        timer.start()
        if callable(shut_down):
            shut_down(number, frame)
        else:
            _exit_now(clean, number)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, handle_signal)


def _exit_now(clean: Callable[[], None], number: int) -> None:
    clean()
    os._exit(128 + number)


def stop_with_parent(descriptor: int = 0) -> threading.Thread:
    """Send SIGTERM to this process when the pipe closes, because its parent was killed."""

    def wait_for_close() -> None:
        with suppress(OSError):
            while os.read(descriptor, 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=wait_for_close, name="graphviz-dash starter", daemon=True)
    thread.start()
    return thread


def raise_descriptor_limit() -> int | None:
    """Raise the soft limit of open descriptors (256 on some systems) and return it.

    None on systems without a limit.
    """
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return soft
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return soft
