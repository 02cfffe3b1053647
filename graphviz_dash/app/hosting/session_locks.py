"""One lock for what a visitor's runs of the script share.

At a quick rerun Streamlit starts the next run while the last one still goes on to its next element.
Each of them holds the same state of the session, under a lock of its own: the state that one copies
for a list of choices changes while the other begins, and the page shows "dictionary changed size
during iteration". It happens more often with the short turns of threads that the server takes.

A run asks whether it was ended before it waits for its turn. It asks once more when it has it: what
it would write, its address above all, would be the next run's by then.
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
"""The lock of each state by its id, for as long as a run holds both."""
_TURN: Final = threading.Lock()


class _Turns:
    """The turns of one run with the state."""

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
    """From now on all runs of a session take turns with its state, and one that was ended has no
    more of them."""
    begin = SafeSessionState.__init__
    if hasattr(begin, _SHARED):
        return

    def begin_with_shared(self: SafeSessionState, state: Any, *rest: Any, **named: Any) -> None:
        begin(self, state, *rest, **named)
        with _TURN:
            lock = _LOCKS.setdefault(id(state), threading.RLock())
        object.__setattr__(self, "_lock", _Turns(lock, self._yield_callback))

    setattr(begin_with_shared, _SHARED, True)
    SafeSessionState.__init__ = begin_with_shared  # type: ignore[method-assign]
