"""How much visitors have in the server's memory, where Streamlit keeps what they upload."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final

MAX_VISITOR_BYTES: Final = 1 << 30
MAX_ALL_BYTES: Final = 4 << 30


class HeldUploads:
    """Sizes of the files that Streamlit holds, by visitor and path; safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def take(self, visitor: str, path: str, size: int) -> bool:
        """Counts a file, if it is not too much; whether it was counted."""
        with self._lock:
            others = sum(sum(held.values()) for held in self._sizes.values())
            own = sum(self._sizes[visitor].values())
            if own + size > MAX_VISITOR_BYTES or others + size > MAX_ALL_BYTES:
                return False
            self._sizes[visitor][path] = size
            return True

    def drop(self, visitor: str, path: str) -> None:
        """Counts a file no more."""
        with self._lock:
            self._sizes[visitor].pop(path, None)

    def release(self, visitor: str) -> None:
        """Counts nothing of a visitor any more."""
        with self._lock:
            self._sizes.pop(visitor, None)


HELD: Final = HeldUploads()
