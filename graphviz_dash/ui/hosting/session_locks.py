"""One lock for what a visitor's runs of the script share.

At a quick rerun Streamlit starts the next run while the last one still goes on to its next element.
Each of them holds the same state of the session, under a lock of its own: the state that one copies
for a list of choices changes while the other begins, and the page shows "dictionary changed size
during iteration". It happens more often with the short turns of threads that the server takes.
"""

from __future__ import annotations

import threading
from typing import Any, Final
from weakref import WeakValueDictionary

from streamlit.runtime.state import SafeSessionState

_SHARED: Final = "_shares_its_lock"
_LOCKS: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()
"""The lock of each state by its id, for as long as a run holds both."""
_TURN: Final = threading.Lock()


def share_locks() -> None:
    """From now on all runs of a session take turns with its state."""
    begin = SafeSessionState.__init__
    if hasattr(begin, _SHARED):
        return

    def begin_with_shared(self: SafeSessionState, state: Any, *rest: Any, **named: Any) -> None:
        begin(self, state, *rest, **named)
        with _TURN:
            lock = _LOCKS.setdefault(id(state), threading.RLock())
        object.__setattr__(self, "_lock", lock)

    setattr(begin_with_shared, _SHARED, True)
    SafeSessionState.__init__ = begin_with_shared  # type: ignore[method-assign]
