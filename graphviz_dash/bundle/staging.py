"""Hidden staging folders for atomic creation, and removal of abandoned ones.

An owner holds a lock on its folder (flock, which the kernel releases when the process ends), so
that a later run can distinguish abandoned folders from active ones. Without such locks (Windows,
some network file systems), no folder counts as abandoned.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

STAGING_SUFFIX: Final = ".staging"

_SCRATCH_NAME: Final = "graphviz-dash-command"
UNFINISHED_FILE: Final = "unfinished.json"
"""Marks a folder as unfinished instead of abandoned. The command that wrote it finishes the work of
a killed owner."""

_MAX_ATTEMPTS: Final = 3


class Staging:
    """A new hidden folder ``.<name>.XXXXXXXX.staging`` in ``parent``, locked while in use.

    Use as a context manager: the folder is removed at the end unless it was renamed. A forked child
    leaves the folder to its parent.

    Raises:
        OSError: The folder cannot be created.
    """

    def __init__(self, parent: Path, name: str) -> None:
        self._owner = os.getpid()
        for _ in range(_MAX_ATTEMPTS):
            self.path = Path(
                tempfile.mkdtemp(prefix=f".{name}.", suffix=STAGING_SUFFIX, dir=parent)
            )
            self._lock = _lock_folder(self.path)
            # Another run may have removed it as abandoned between these two lines.
            if self._lock is not None and self.path.exists():
                break

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def create_scratch_folder() -> Iterator[Path]:
    """Provide a private temporary folder, after removing those of killed processes."""
    _remove_abandoned_scratch_once()
    with Staging(Path(tempfile.gettempdir()), _SCRATCH_NAME) as staging:
        yield staging.path


def remove_abandoned_scratch() -> None:
    """Remove scratch folders of killed processes of this user."""
    remove_abandoned_folders(Path(tempfile.gettempdir()), _SCRATCH_NAME)


_remove_abandoned_scratch_once = cache(remove_abandoned_scratch)


class AbandonedFolder(Struct, frozen=True):
    """An abandoned staging folder that was removed."""

    path: Path
    bytes: int
    """Total size of its files, in bytes."""


def remove_abandoned_folders(parent: Path, name: str = "*") -> tuple[AbandonedFolder, ...]:
    """Remove and return the abandoned staging folders of ``name`` directly in ``parent``.

    A folder that cannot be locked or removed, or that is unfinished, is kept.
    """
    removed = []
    for folder in sorted(parent.glob(f".{name}.*{STAGING_SUFFIX}")):
        if (folder / UNFINISHED_FILE).exists() or (lock := _lock_folder(folder)) is None:
            continue
        try:
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            shutil.rmtree(folder)
        except OSError:
            continue
        finally:
            os.close(lock)
        removed.append(AbandonedFolder(folder, size))
    return tuple(removed)


@contextmanager
def adopt_folder(folder: Path) -> Iterator[bool]:
    """Own an abandoned staging folder inside the block. False if its owner lives."""
    lock = _lock_folder(folder)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _lock_folder(folder: Path) -> int | None:
    """Lock ``folder`` and return the handle. None if locked by another process, missing, or
    unsupported."""
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
