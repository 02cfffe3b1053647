"""Track the memory of uploads that Streamlit holds for visitors."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final

MAX_VISITOR_BYTES: Final = 1 << 30
MAX_ALL_BYTES: Final = 4 << 30


class HeldUploads:
    """Sizes of the files that Streamlit holds, by visitor and path. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def register(self, visitor: str, path: str, size: int) -> bool:
        """Register a file and return True, or return False if it exceeds a limit."""
        with self._lock:
            total = sum(sum(held.values()) for held in self._sizes.values())
            visitor_total = sum(self._sizes[visitor].values())
            if visitor_total + size > MAX_VISITOR_BYTES or total + size > MAX_ALL_BYTES:
                return False
            self._sizes[visitor][path] = size
            return True

    def unregister(self, visitor: str, path: str) -> None:
        """Unregister a file."""
        with self._lock:
            self._sizes[visitor].pop(path, None)

    def release(self, visitor: str) -> None:
        """Unregister all files of a visitor."""
        with self._lock:
            self._sizes.pop(visitor, None)


HELD_UPLOADS: Final = HeldUploads()
