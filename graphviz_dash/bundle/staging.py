"""Hidden folders in which something is made before it is seen, and what killed makers left of them.

A living owner holds a lock on its folder (flock on the folder itself, which the kernel drops when
the process ends, however it ends), so that a later run can tell what is left over from what is
still being written. Where there is no such lock (Windows, some network file systems) nothing is
ever taken for a leftover.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SUFFIX: Final = ".staging"

UNFINISHED: Final = "unfinished.json"
"""A folder with this file is not a leftover: the command that writes the file finishes the work of
an owner that was killed."""

_TRIES: Final = 3


class Staging:
    """A new hidden folder ``.<name>.XXXXXXXX.staging`` in ``parent``, locked while it is in use.

    Use as a context manager: the folder goes away at the end, unless it was renamed by then. A
    forked child that comes to that end leaves the folder to its parent. OSError when the disk
    refuses.
    """

    def __init__(self, parent: Path, name: str) -> None:
        self._owner = os.getpid()
        for _ in range(_TRIES):
            self.path = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=SUFFIX, dir=parent))
            self._lock = _lock(self.path)
            # Between the two lines another run may have taken it for a leftover.
            if self._lock is not None and self.path.exists():
                break

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class Leftover(Struct, frozen=True):
    """A staging folder without an owner that was removed, and how many bytes its files had."""

    path: Path
    bytes: int


def remove_leftovers(parent: Path, name: str = "*") -> tuple[Leftover, ...]:
    """Removes the staging folders of ``name`` directly in ``parent`` whose owner has died, and
    returns them.

    A folder that cannot be locked or removed, or that is unfinished, is left as it is.
    """
    removed = []
    for folder in sorted(parent.glob(f".{name}.*{SUFFIX}")):
        if (folder / UNFINISHED).exists() or (lock := _lock(folder)) is None:
            continue
        try:
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            shutil.rmtree(folder)
        except OSError:
            continue
        finally:
            os.close(lock)
        removed.append(Leftover(folder, size))
    return tuple(removed)


@contextmanager
def adopted(folder: Path) -> Iterator[bool]:
    """Own the staging folder of an owner that has died, inside the block; False if it lives."""
    lock = _lock(folder)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """A handle that holds the lock on ``folder``; None when another process does, the folder is
    gone, or there is no locking here."""
    if fcntl is None:
        return None
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
