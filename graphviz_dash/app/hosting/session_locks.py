"""Share one lock between all script runs of a visitor.

On a quick rerun, Streamlit starts the next run while the last one still runs. Both hold the same
session state, each under its own lock. One copies it while the other changes it, and the page shows
"dictionary changed size during iteration".

A run checks for cancellation before and after acquiring the lock, because its writes would affect
the next run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from streamlit.runtime.state import SafeSessionState

_PATCHED: Final = "_shares_its_lock"
_LOCK: Final = "_lock"
"""Attribute of Streamlit's session state: the lock of one run."""
_END_IF_ASKED: Final = "_yield_callback"
"""Attribute of Streamlit's session state: ends a cancelled run."""
_LOCKS: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()
"""Lock of each state by its id."""
_REGISTRY_LOCK: Final = threading.Lock()


class _SessionLock:
    """Lock of one run on the session state."""

    def __init__(self, lock: Any, end_if_requested: Callable[[], None]) -> None:
        self._lock = lock
        self._end_if_asked = end_if_requested

    def __enter__(self) -> None:
        with ExitStack() as turn:
            turn.enter_context(self._lock)
            self._end_if_asked()
            turn.pop_all()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def patch_session_locks() -> None:
    """Patch Streamlit so that all runs of a session share a lock and cancelled runs stop.

    Raises:
        ImportError, AttributeError: This version of Streamlit lacks a name.
    """
    from streamlit.runtime.state import SafeSessionState, SessionState

    # Both are set for each session; look at one before any is changed.
    unused = SafeSessionState(SessionState(), lambda: None)
    for name in (_LOCK, _END_IF_ASKED):
        object.__getattribute__(unused, name)
    init = SafeSessionState.__init__
    if hasattr(init, _PATCHED):
        return

    def init_with_shared_lock(self: SafeSessionState, state: Any, *rest: Any, **named: Any) -> None:
        init(self, state, *rest, **named)
        with _REGISTRY_LOCK:
            lock = _LOCKS.setdefault(id(state), threading.RLock())
        end_if_requested = object.__getattribute__(self, _END_IF_ASKED)
        object.__setattr__(self, _LOCK, _SessionLock(lock, end_if_requested))

    setattr(init_with_shared_lock, _PATCHED, True)
    SafeSessionState.__init__ = init_with_shared_lock  # type: ignore[method-assign]
