"""The folder in which a server keeps what shall not outlive it.

Each lies in the system's temporary folder and holds a lock that its process keeps until it ends, by
whatever signal; a folder whose lock is free was left behind by one that was killed, and is removed
by the next one. Where there are no such locks (Windows) nothing is known to be left behind.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PREFIX: Final = "graphviz-dash-server-"
_LOCK: Final = "lock"


class Scratch:
    """A folder of this process, readable by this user only; made when first asked for."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._lock: int | None = None

    @property
    def folder(self) -> Path:
        """The folder; its owner is this process, not one that it was forked from."""
        if self._folder is None:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self._lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            if fcntl is not None:
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._folder = folder
        return self._folder

    def subfolder(self, name: str) -> Path:
        """The folder called ``name`` in it, made if it is not there."""
        folder = self.folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def remove(self) -> None:
        """Removes the folder with all that is in it; one that is asked for later is another."""
        if self._folder is None or self._lock is None:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)
        self._folder = self._lock = None


def sweep(parent: Path | None = None) -> int:
    """Removes the folders that killed servers of this user left in ``parent``, by default the
    system's temporary folder. Returns how many."""
    if fcntl is None:
        return 0
    removed = 0
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            removed += _remove_if_left(folder)
    return removed


def _remove_if_left(folder: Path) -> bool:
    owner = folder.lstat()
    if folder.is_symlink() or owner.st_uid != os.getuid():
        return False
    # Without a lock yet it is being made.
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
    return True


SCRATCH: Final = Scratch()
