"""Share one lock between all script runs of a visitor.

On a quick rerun, Streamlit starts the next run while the last one still runs to its next element.
Both hold the same session state, each under its own lock. One copies the state for a list of
options while the other changes it, and the page shows "dictionary changed size during iteration".
Short thread switch intervals make this more likely.

A run checks for cancellation before it waits for the lock, and again after acquiring it, because
its writes, above all the address, would affect the next run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final
from weakref import WeakValueDictionary

from streamlit.runtime.state import SafeSessionState

_SHARED: Final = "_shares_its_lock"
_LOCKS: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()
"""Lock of each state by its id, for as long as a run holds both."""
_TURN: Final = threading.Lock()


class _Turns:
    """Lock of one run on the session state."""

    def __init__(self, lock: Any, end_if_asked: Callable[[], None]) -> None:
        self._lock = lock
        self._end_if_asked = end_if_asked

    def __enter__(self) -> None:
        with ExitStack() as turn:
            turn.enter_context(self._lock)
            self._end_if_asked()
            turn.pop_all()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def share_locks() -> None:
    """Patch Streamlit so that all runs of a session share a lock and cancelled runs stop."""
    init = SafeSessionState.__init__
    if hasattr(init, _SHARED):
        return

    def begin_with_shared(self: SafeSessionState, state: Any, *rest: Any, **named: Any) -> None:
        init(self, state, *rest, **named)
        with _TURN:
            lock = _LOCKS.setdefault(id(state), threading.RLock())
        object.__setattr__(self, "_lock", _Turns(lock, self._yield_callback))

    setattr(begin_with_shared, _SHARED, True)
    SafeSessionState.__init__ = begin_with_shared  # type: ignore[method-assign]
