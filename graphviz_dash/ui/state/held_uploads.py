"""Limit the memory of uploads that Streamlit receives and holds for visitors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

MAX_VISITOR_BYTES: Final = 1 << 30
MAX_ALL_BYTES: Final = 4 << 30


class Receipt:
    """Bytes of one upload, counted as they arrive."""

    def __init__(self, visitor: str, path: str) -> None:
        self.visitor = visitor
        self.path = path
        self.size = 0
        self.has_file = False


class HeldUploads:
    """Receipts of uploads in progress or held. Thread-safe.

    Args:
        exists: Returns True if the file stored at a path still exists. Streamlit removes files
            with their session, and on request.
    """

    def __init__(self, exists: Callable[[str], bool]) -> None:
        self._exists = exists
        self._lock = threading.Lock()
        self._receipts: set[Receipt] = set()

    def begin(self, visitor: str, path: str) -> Receipt:
        """Begin to receive a file; always end with :meth:`finish`."""
        receipt = Receipt(visitor, path)
        with self._lock:
            self._receipts.add(receipt)
        return receipt

    def add(self, receipt: Receipt, size: int) -> bool:
        """Count received bytes; False if they exceed a limit."""
        with self._lock:
            if not self._has_room(receipt, size):
                self._remove_dropped()
                if not self._has_room(receipt, size):
                    return False
            receipt.size += size
            return True

    def has_room(self, receipt: Receipt, size: int) -> bool:
        """Return True if a file of ``size`` more bytes is within the limits."""
        with self._lock:
            self._remove_dropped()
            return self._has_room(receipt, size)

    def finish(self, receipt: Receipt, *, has_file: bool) -> None:
        """Count the file until it is removed, if it was stored."""
        with self._lock:
            self._receipts.discard(receipt)
            if has_file:
                # The same path again replaces the file.
                self._receipts = {item for item in self._receipts if item.path != receipt.path}
                receipt.has_file = True
                self._receipts.add(receipt)

    def _has_room(self, receipt: Receipt, size: int) -> bool:
        total = sum(item.size for item in self._receipts)
        visitor_total = sum(item.size for item in self._receipts if item.visitor == receipt.visitor)
        return visitor_total + size <= MAX_VISITOR_BYTES and total + size <= MAX_ALL_BYTES

    def _remove_dropped(self) -> None:
        obsolete = {
            item for item in self._receipts if item.has_file and not self._exists(item.path)
        }
        self._receipts -= obsolete


def _find_in_streamlit(path: str) -> bool:
    from streamlit.runtime import Runtime

    session, _, file = path.rpartition("/")
    files = Runtime.instance().uploaded_file_mgr.get_files(session.rpartition("/")[2], [file])
    return bool(files)


HELD_UPLOADS: Final = HeldUploads(_find_in_streamlit)
