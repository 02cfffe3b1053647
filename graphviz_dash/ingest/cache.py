"""Cache of parsed traces as Parquet outside the bundles.

Entries (:mod:`graphviz_dash.ingest.cache_entry`) are written to a staging folder and renamed, so
interrupts leave no partial ones. A full, read-only or damaged cache costs only time: the trace is
parsed from its file.
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
from graphviz_dash.bundle.write import compute_sha256
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.ingest.cache_entry import (
    LAYOUT_VERSION,
    PARQUET_ERRORS,
    DamagedEntryError,
    FallbackSource,
    load_entry,
    read_entry_info,
    write_entry,
)
from graphviz_dash.ingest.cache_folder import find_cache_folder
from graphviz_dash.ingest.kineto.columns import SCHEMAS
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.trace import Trace

_LOG: Final = logging.getLogger(__name__)

MAX_CACHE_BYTES: Final = 4 << 30
"""Maximum total size of the entries. The least recently used go first."""

MIN_CACHED_EVENTS: Final = 20_000
"""Minimum events of cached traces. Smaller ones are parsed about as fast as cached tables open."""

_DAMAGED_TRACES: Final[set[Path]] = set()

_STORE_ERRORS: Final[tuple[type[BaseException], ...]] = (*PARQUET_ERRORS, MemoryError)
_STAGING: Final = ".staging-"
_STALE_SECONDS: Final = 3600


def find_damaged(folder: Path) -> tuple[Path, ...]:
    """Return the traces below ``folder`` whose damaged cached tables this process recreated."""
    return tuple(sorted(path for path in _DAMAGED_TRACES if path.is_relative_to(folder.resolve())))


class CacheEntry(Struct, frozen=True):
    """A cached trace."""

    key: str
    """Name of its folder."""
    path: Path
    """Path from which the trace was first read."""
    events: int
    """Number of entries in traceEvents."""
    size: int
    """Size of the entry in bytes."""
    last_used: float
    """Last use (Unix time)."""


class TraceCache:
    """Cache in ``folder``, created on first use."""

    def __init__(self, folder: Path, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes

    def load(
        self,
        key: str,
        path: Path,
        limits: Limits = DEFAULT_LIMITS,
        *,
        sha256: str | None = None,
    ) -> Trace | None:
        """Load the trace under ``key``, read from ``path``. None if missing.

        An unreadable entry is logged, removed and treated as missing. If it becomes unreadable
        later, the file is read again, unless its hash is no longer ``sha256``.
        """
        folder = self.folder / key
        read = partial(_reread_trace, path, limits, sha256)
        source = FallbackSource(read, partial(self.replace, key))
        try:
            trace = load_entry(folder, path, source)
        except FileNotFoundError:
            return None
        except DamagedEntryError as damage:
            self._remove_damaged(key, path, damage)
            return None
        with suppress(OSError):  # a read-only cache
            os.utime(folder)
        return trace

    def store(self, key: str, trace: Trace) -> None:
        """Store ``trace`` under ``key``, then remove entries beyond the size limit. Ignores a
        read-only folder and a full disk."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.folder))
        except OSError:
            return
        try:
            try:
                write_entry(staging, trace)
                staging.rename(self.folder / key)
            except _STORE_ERRORS:  # a full disk, or created by another process
                pass
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        finally:
            # Polars raises its own KeyboardInterrupt, and Python's for the same signal follows
            # shortly after, during the removal.
            shutil.rmtree(staging, ignore_errors=True)
        self._remove_excess()

    def replace(self, key: str, trace: Trace, damage: DamagedEntryError | None) -> None:
        """Replace the damaged entry under ``key`` by ``trace`` and log it. Without ``damage``, do
        nothing."""
        if damage is not None and trace.offsets is not None:
            self._remove_damaged(key, trace.offsets.path, damage)
            self.store(key, trace)

    def _remove_damaged(self, key: str, path: Path, damage: DamagedEntryError) -> None:
        text = f"{path}: its cached tables are damaged ({damage}); reading the trace again"
        _LOG.warning("%s", escape_control_characters(text))
        _DAMAGED_TRACES.add(path.resolve())
        shutil.rmtree(self.folder / key, ignore_errors=True)

    def list_entries(self) -> list[CacheEntry]:
        """Return the readable entries, most recently used first."""
        result = []
        for folder in self._iter_folders():
            try:
                entry = read_entry_info(folder)
                used = folder.stat().st_mtime
            except (OSError, DamagedEntryError):
                continue
            path = Path(entry.path or entry.trace.source)
            size = _measure_size(folder)
            result.append(CacheEntry(folder.name, path, entry.trace.events, size, used))
        return sorted(result, key=lambda entry: -entry.last_used)

    def clear(self) -> int:
        """Remove all entries and return the freed bytes."""
        freed = 0
        for folder in self._iter_folders(staged=True):
            freed += _measure_size(folder)
            shutil.rmtree(folder, ignore_errors=True)
        return freed

    def _iter_folders(self, *, staged: bool = False) -> Iterator[Path]:
        """Yield the folders of the entries."""
        try:
            names = sorted(os.listdir(self.folder))
        except OSError:
            return
        for name in names:
            is_key = len(name) == _KEY_LENGTH and not set(name) - set("0123456789abcdef")
            if is_key or (staged and name.startswith(_STAGING)):
                yield self.folder / name

    def _remove_excess(self) -> None:
        entries = []
        for folder in self._iter_folders(staged=True):
            try:
                used = folder.stat().st_mtime
            except OSError:
                continue
            if not folder.name.startswith(_STAGING):
                entries.append((used, _measure_size(folder), folder))
            elif used < time.time() - _STALE_SECONDS:  # left by a killed process
                shutil.rmtree(folder, ignore_errors=True)
        total = sum(size for _, size, _ in entries)
        for _, size, folder in sorted(entries):
            if total <= self.max_bytes:
                return
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


def get_default_cache() -> TraceCache | None:
    """Return the user's cache; None if disabled."""
    folder = find_cache_folder()
    return None if folder is None else TraceCache(folder)


def open_trace(
    path: Path,
    limits: Limits = DEFAULT_LIMITS,
    *,
    cache: TraceCache | None,
    sha256: str | None = None,
) -> Trace:
    """Open the trace in ``path``, from ``cache`` if possible, or else read and cache it.

    ``sha256`` is the file's hash, checked by the caller. Without it, the file is identified by
    path, size, inode and modification times.

    Raises:
        InputError, WorkerError: As in :func:`read_trace`.
    """
    version = _identify_file(path)
    if cache is None or version is None:
        return read_trace(path, limits)
    key = _compute_key(limits, sha256 or version)
    cached = cache.load(key, path, limits, sha256=sha256)
    if cached is not None:
        return cached
    trace = read_trace(path, limits)
    if trace.info.events >= MIN_CACHED_EVENTS:
        # Other experiments may have a trace with the same hash, so it must be that of these bytes.
        has_hash = sha256 is None or compute_sha256(path) == sha256
        # If the file was rewritten meanwhile, the tables may belong to neither version.
        if has_hash and _identify_file(path) == version:
            cache.store(key, trace)
    return trace


def _reread_trace(path: Path, limits: Limits, sha256: str | None) -> Trace:
    trace = read_trace(path, limits)
    if sha256 is not None and compute_sha256(path) != sha256:
        raise InputError(
            path, "a file that changed while it was open", "the same content as before"
        )
    return trace


_KEY_LENGTH: Final = 40


def _identify_file(path: Path) -> str | None:
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
    return repr((str(path.resolve()), times))


def _compute_key(limits: Limits, content: str) -> str:
    parts = (LAYOUT_VERSION, __version__, SCHEMAS, limits, content)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:_KEY_LENGTH]


def _measure_size(folder: Path) -> int:
    try:
        with os.scandir(folder) as files:
            return sum(file.stat(follow_symlinks=False).st_size for file in files)
    except OSError:
        return 0
