"""Traces that were read once, kept as Parquet outside the bundles, so that they open unparsed.

An entry is a folder, as :mod:`graphviz_dash.ingest.cache_entry` writes it. It is written beside its
place and renamed into it when it is whole, so that an interrupt leaves none by halves. A cache that
is full, read-only or damaged costs time and nothing else: the trace is read from its own file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from graphviz_dash import __version__
from graphviz_dash.errors import printable
from graphviz_dash.ingest.cache_entry import (
    LAYOUT,
    DamagedEntryError,
    Source,
    load_entry,
    read_entry_info,
    write_entry,
)
from graphviz_dash.ingest.kineto.columns import SCHEMAS
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.parquet import UNREADABLE
from graphviz_dash.model.trace import Trace

_LOG: Final = logging.getLogger(__name__)

VARIABLE: Final = "GRAPHVIZ_DASH_CACHE"
"""Environment variable: the cache's folder, or ``off``."""

MOST_BYTES: Final = 4 << 30
"""What all entries together may take; those that were not used for longest go first."""

WORTHWHILE_EVENTS: Final = 20_000
"""A smaller trace is parsed about as fast as its tables are opened."""

_DAMAGED: Final[set[Path]] = set()
"""The traces whose tables in the cache were found damaged since this process began."""

_NOT_KEPT: Final[tuple[type[BaseException], ...]] = (*UNREADABLE, MemoryError)
_STAGING: Final = ".staging-"
_STALE_SECONDS: Final = 3600


def damaged_below(folder: Path) -> tuple[Path, ...]:
    """The traces below ``folder`` whose tables in the cache were damaged when this process used
    them, and were made anew from the traces."""
    return tuple(sorted(path for path in _DAMAGED if path.is_relative_to(folder.resolve())))


class CacheEntry(Struct, frozen=True):
    """A trace in the cache."""

    key: str
    """Its folder's name."""
    path: Path
    """Where the trace was read first."""
    events: int
    """Entries of traceEvents."""
    size: int
    """Bytes that the entry takes."""
    used: float
    """Its last use (Unix time)."""


class TraceCache:
    """The entries in ``folder``, which is made when something is kept."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self.most_bytes = most_bytes

    def load(self, key: str, path: Path, limits: Limits = DEFAULT_LIMITS) -> Trace | None:
        """The trace kept under ``key``, as read from ``path``; None if there is none. An entry that
        cannot be read is removed, which is logged, and counts as none."""
        folder = self.folder / key
        source = Source(partial(_read_again, path, limits), partial(self.replace, key))
        try:
            trace = load_entry(folder, path, source)
        except FileNotFoundError:
            return None
        except DamagedEntryError as damage:
            self._remove_damaged(key, path, damage)
            return None
        with suppress(OSError):  # a cache that is only read
            os.utime(folder)
        return trace

    def store(self, key: str, trace: Trace) -> None:
        """Keeps ``trace`` under ``key``, then removes what is over the bound. Does nothing where
        the folder cannot be written or the disk is full: a cache is a convenience."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.folder))
        except OSError:
            return
        try:
            try:
                write_entry(staging, trace)
                staging.rename(self.folder / key)
            except _NOT_KEPT:  # a full disk, or another process was first
                pass
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        finally:
            # Polars raises a KeyboardInterrupt of its own, and Python's for the same signal comes a
            # moment later: in the removal.
            shutil.rmtree(staging, ignore_errors=True)
        self._bound()

    def replace(self, key: str, trace: Trace, damage: DamagedEntryError | None) -> None:
        """Stores ``trace``, read anew, in place of the entry under ``key`` that is damaged, which
        is logged; nothing for one that was only removed (``damage`` is None)."""
        if damage is not None and trace.offsets is not None:
            self._remove_damaged(key, trace.offsets.path, damage)
            self.store(key, trace)

    def _remove_damaged(self, key: str, path: Path, damage: DamagedEntryError) -> None:
        text = f"{path}: its tables in the cache are damaged ({damage}); it is read anew"
        _LOG.warning("%s", printable(text))
        _DAMAGED.add(path.resolve())
        shutil.rmtree(self.folder / key, ignore_errors=True)

    def entries(self) -> list[CacheEntry]:
        """What is kept, the last used first; entries that cannot be read are left out."""
        listed = []
        for folder in self._folders():
            try:
                entry = read_entry_info(folder)
                used = folder.stat().st_mtime
            except (OSError, DamagedEntryError):
                continue
            path = Path(entry.path or entry.trace.source)
            size = _size(folder)
            listed.append(CacheEntry(folder.name, path, entry.trace.events, size, used))
        return sorted(listed, key=lambda entry: -entry.used)

    def clear(self) -> int:
        """Removes every entry; returns the bytes that are free again."""
        freed = 0
        for folder in self._folders(staged=True):
            freed += _size(folder)
            shutil.rmtree(folder, ignore_errors=True)
        return freed

    def _folders(self, *, staged: bool = False) -> Iterator[Path]:
        """The entries' folders; nothing else that may lie in the folder is ever touched."""
        try:
            names = sorted(os.listdir(self.folder))
        except OSError:
            return
        for name in names:
            is_key = len(name) == _KEY_LENGTH and not set(name) - set("0123456789abcdef")
            if is_key or (staged and name.startswith(_STAGING)):
                yield self.folder / name

    def _bound(self) -> None:
        aged = []
        for folder in self._folders(staged=True):
            try:
                used = folder.stat().st_mtime
            except OSError:
                continue
            if not folder.name.startswith(_STAGING):
                aged.append((used, _size(folder), folder))
            elif used < time.time() - _STALE_SECONDS:  # of a process that was killed
                shutil.rmtree(folder, ignore_errors=True)
        total = sum(size for _, size, _ in aged)
        for _, size, folder in sorted(aged):
            if total <= self.most_bytes:
                return
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


def default_cache() -> TraceCache | None:
    """The user's cache, as :data:`VARIABLE` or the XDG base directories say; None if it is off."""
    setting = os.environ.get(VARIABLE, "")
    if setting.lower() == "off":
        return None
    if setting:
        return TraceCache(Path(setting).expanduser())
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        above = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:  # no home folder
        return None
    return TraceCache(above / "graphviz-dash" / "traces")


def open_trace(
    path: Path,
    limits: Limits = DEFAULT_LIMITS,
    *,
    cache: TraceCache | None,
    sha256: str | None = None,
) -> Trace:
    """The trace in ``path``, from ``cache`` if it is there, else read and, if that is worthwhile,
    kept.

    ``sha256`` is the file's, where a manifest vouches for it; without it the file counts as the
    same while its path, size, inode and times of change are.

    Raises:
        InputError, WorkerError: as :func:`read_trace`.
    """
    key = _key(path, limits, sha256) if cache else None
    if cache is None or key is None:
        return read_trace(path, limits)
    cached = cache.load(key, path, limits)
    if cached is not None:
        return cached
    trace = read_trace(path, limits)
    # Written anew meanwhile: the tables may be neither the old file's nor the new one's.
    if trace.info.events >= WORTHWHILE_EVENTS and _key(path, limits, sha256) == key:
        cache.store(key, trace)
    return trace


def _read_again(path: Path, limits: Limits) -> Trace:
    return read_trace(path, limits)


_KEY_LENGTH: Final = 40


def _key(path: Path, limits: Limits, sha256: str | None) -> str | None:
    """What the tables depend on, as a folder's name; None if there is no file."""
    content = sha256
    if content is None:
        try:
            status = path.resolve().stat()
        except OSError:
            return None
        times = (
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
            status.st_dev,
        )
        content = repr((str(path.resolve()), times))
    parts = (LAYOUT, __version__, SCHEMAS, limits, content)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:_KEY_LENGTH]


def _size(folder: Path) -> int:
    try:
        with os.scandir(folder) as files:
            return sum(file.stat(follow_symlinks=False).st_size for file in files)
    except OSError:
        return 0
