"""Traces that were read once, kept as Parquet outside the bundles, so that they open unparsed.

An entry is a folder: a Parquet file for each table, one for where events stand in the file, and
``info.json``. It is written beside its place and renamed into it when it is whole, so that an
interrupt leaves none by halves. Nothing in it is executed or unpickled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import polars as pl

from graphviz_dash import __version__
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.columns import SCHEMAS
from graphviz_dash.ingest.kineto.reader import PIECES, read_trace
from graphviz_dash.ingest.kineto.tables import TYPES
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.parquet import UNREADABLE
from graphviz_dash.model.trace import EventPlaces, Trace, TraceInfo

VARIABLE: Final = "GRAPHVIZ_DASH_CACHE"
"""Environment variable: the cache's folder, or ``off``."""

MOST_BYTES: Final = 4 << 30
"""What all entries together may take; those that were not used for longest go first."""

WORTHWHILE_EVENTS: Final = 20_000
"""A smaller trace is parsed about as fast as its tables are opened."""

_LAYOUT: Final = 2
_PIECES: Final = "pieces"
_PLACE: Final = "place"
_SCHEMAS: Final = {
    name: pl.Schema({column: TYPES[kind] for column, kind in columns.items()})
    for name, columns in SCHEMAS.items()
}
_STAGING: Final = ".staging-"
_STALE_SECONDS: Final = 3600


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """``info.json``: the trace's own words, the size of each file beside it, and from where the
    trace was read first."""

    info: TraceInfo
    sizes: dict[str, int]
    path: str = ""


_BROKEN: Final[tuple[type[BaseException], ...]] = (msgspec.MsgspecError, *UNREADABLE)


@dataclass(frozen=True)
class Kept:
    """An entry of the cache: where the trace was read first, its events, the bytes that it takes,
    its last use (Unix)."""

    key: str
    path: Path
    events: int
    size: int
    used: float


class TraceCache:
    """The entries in ``folder``, which is made when something is kept."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self.most_bytes = most_bytes

    def load(self, key: str, path: Path, limits: Limits = DEFAULT_LIMITS) -> Trace | None:
        """The trace kept under ``key``, as read from ``path``; None if there is none. What cannot
        be read counts as none and is removed."""
        folder = self.folder / key
        try:
            entry = msgspec.json.decode((folder / "info.json").read_bytes(), type=_Entry)
            if {name: (folder / name).stat().st_size for name in entry.sizes} != entry.sizes:
                raise ValueError("a file of another size")
            trace = _loaded(folder, path, entry.info, limits)
            os.utime(folder)
        except FileNotFoundError:
            return None
        except _BROKEN:
            shutil.rmtree(folder, ignore_errors=True)
            return None
        return trace

    def keep(self, key: str, trace: Trace) -> None:
        """Keeps ``trace`` under ``key``, then removes what is over the bound. Does nothing where
        the folder cannot be written: a cache is a convenience."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.folder))
        except OSError:
            return
        try:
            try:
                _write(staging, trace)
                staging.rename(self.folder / key)
            except OSError:  # a full disk, or another process was first
                pass
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        finally:
            # Polars raises a KeyboardInterrupt of its own, and Python's for the same signal comes a
            # moment later: in the removal.
            shutil.rmtree(staging, ignore_errors=True)
        self._bound()

    def entries(self) -> list[Kept]:
        """What is kept, the last used first; entries that cannot be read are left out."""
        listed = []
        for folder in self._folders():
            try:
                entry = msgspec.json.decode((folder / "info.json").read_bytes(), type=_Entry)
                used = folder.stat().st_mtime
            except (OSError, msgspec.MsgspecError):
                continue
            info = entry.info
            path = Path(entry.path or info.source)
            listed.append(Kept(folder.name, path, info.events, _size(folder), used))
        return sorted(listed, key=lambda kept: -kept.used)

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
        cache.keep(key, trace)
    return trace


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
    parts = (_LAYOUT, __version__, SCHEMAS, limits, content)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:_KEY_LENGTH]


def _write(folder: Path, trace: Trace) -> None:
    assert trace.places is not None  # it was read from a file
    for name, rows in trace.places.rows.items():
        frame: pl.DataFrame = getattr(trace, name)
        frame.with_columns(rows.alias(_PLACE)).write_parquet(folder / f"{name}.parquet")
    trace.places.pieces.write_parquet(folder / f"{_PIECES}.parquet")
    sizes = {name: (folder / name).stat().st_size for name in sorted(os.listdir(folder))}
    entry = _Entry(
        trace.info, sizes, os.fsencode(trace.places.path.resolve()).decode("utf-8", "replace")
    )
    (folder / "info.json").write_bytes(msgspec.json.encode(entry))


def _loaded(folder: Path, path: Path, info: TraceInfo, limits: Limits) -> Trace:
    """The entry in ``folder``; one of UNREADABLE if it cannot be read."""
    pieces = pl.read_parquet(folder / f"{_PIECES}.parquet", schema=PIECES, glob=False)
    info = replace(info, source=path.name)
    entered = _Entered(folder, path, info, limits)
    trace = object.__new__(_KeptTrace)
    places = EventPlaces(path, pieces, _Places(entered))
    vars(trace).update(info=info, places=places, entered=entered)
    return trace


class _Entered:
    """What an entry's files hold, read when it is asked for. Where they have gone meanwhile, or are
    damaged, the trace is read again."""

    def __init__(self, folder: Path, path: Path, info: TraceInfo, limits: Limits) -> None:
        self._folder = folder
        self._path = path
        self._info = info
        self._limits = limits
        self._again: Trace | None = None

    def table(self, name: str) -> pl.DataFrame:
        """A table by its name in SCHEMAS; InputError where the file is another one by now."""
        try:
            return self._read(name, _SCHEMAS[name])
        except UNREADABLE:
            table: pl.DataFrame = getattr(self._parsed(), name)
            return table

    def places(self, name: str) -> pl.Series:
        """The place in traceEvents of each row of a table; raises as :meth:`table`."""
        try:
            return self._read(name, pl.Schema({_PLACE: pl.Int64()}))[_PLACE]
        except UNREADABLE:
            places = self._parsed().places
            assert places is not None  # it was read from a file
            return places.rows[name]

    def _read(self, name: str, schema: pl.Schema) -> pl.DataFrame:
        file = self._folder / f"{name}.parquet"
        # One chunk a column, as it was parsed: numpy then reads it in place, without a copy.
        frame = pl.read_parquet(file, columns=list(schema), glob=False).rechunk()
        if frame.schema != schema:
            raise ValueError("other columns")
        return frame

    def _parsed(self) -> Trace:
        if self._again is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            trace = read_trace(self._path, self._limits)
            if trace.info != self._info:
                actual = "another trace than the one that was opened"
                raise InputError(self._path, actual, "the same file", "Open it again.")
            self._again = trace
        return self._again


class _KeptTrace(Trace):
    """A trace from the cache: a table is read when it is asked for first, for few questions need
    all, and none the Python functions that can be most of a trace."""

    entered: _Entered

    def __getattr__(self, name: str) -> pl.DataFrame:
        """Called for what is not there yet."""
        if name not in SCHEMAS:
            raise AttributeError(name)
        table = self.entered.table(name)
        vars(self)[name] = table
        return table


class _Places(Mapping[str, pl.Series]):
    """The place in traceEvents of each row, for each table, read when it is asked for: few are."""

    def __init__(self, entered: _Entered) -> None:
        self._entered = entered
        self._known: dict[str, pl.Series] = {}

    def __getitem__(self, table: str) -> pl.Series:
        if table not in SCHEMAS:
            raise KeyError(table)
        if table not in self._known:
            self._known[table] = self._entered.places(table)
        return self._known[table]

    def __iter__(self) -> Iterator[str]:
        return iter(SCHEMAS)

    def __len__(self) -> int:
        return len(SCHEMAS)


def _size(folder: Path) -> int:
    try:
        with os.scandir(folder) as files:
            return sum(file.stat(follow_symlinks=False).st_size for file in files)
    except OSError:
        return 0
