"""Entry of the trace cache: tables of one trace as Parquet files with checksums.

``info.json`` contains size and checksum of each file and of itself, so corruption is detected on
reading and never changes a figure. Nothing in an entry is executed or unpickled.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import polars as pl
from isal import isal_zlib
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.columns import SCHEMAS
from graphviz_dash.ingest.kineto.reader import PIECES_SCHEMA
from graphviz_dash.ingest.kineto.tables import TYPES
from graphviz_dash.model.trace import EventOffsets, Trace, TraceInfo

LAYOUT_VERSION: Final = 5
"""Increased when the content of the files changes."""

_INFO: Final = "info.json"
_PIECES: Final = "pieces"
_EVENT_INDEX: Final = "event_index"
_SCHEMAS: Final = {
    name: pl.Schema({column: TYPES[kind] for column, kind in columns.items()})
    for name, columns in SCHEMAS.items()
}


class DamagedEntryError(Exception):
    """Corruption of an entry, with a description."""


class FileCheck(msgspec.Struct, forbid_unknown_fields=True):
    """Expected size and checksum of a file."""

    size: int
    """Size in bytes."""
    crc32: int


class EntryInfo(msgspec.Struct, forbid_unknown_fields=True):
    """Content of ``info.json``."""

    trace: TraceInfo
    files: dict[str, FileCheck]
    """Other files of the entry, by name."""
    path: str = ""
    """Path from which the trace was first read."""


class _SignedEntry(msgspec.Struct, forbid_unknown_fields=True):
    """``info.json``: an :class:`EntryInfo` and its CRC-32."""

    entry: msgspec.Raw
    crc32: int


class FallbackSource(Struct, frozen=True):
    """Fallback source of a trace whose entry is unusable."""

    read: Callable[[], Trace]
    replace: Callable[[Trace, DamagedEntryError | None], None]
    """Receives the trace read, and the damage; None if the entry was missing."""


def write_entry(folder: Path, trace: Trace) -> None:
    """Write ``trace`` to ``folder``. Raises one of :data:`PARQUET_ERRORS` if the disk is full."""
    assert trace.offsets is not None  # it was read from a file
    for name, rows in trace.offsets.rows.items():
        frame: pl.DataFrame = getattr(trace, name)
        frame.with_columns(rows.alias(_EVENT_INDEX)).write_parquet(folder / f"{name}.parquet")
    trace.offsets.pieces.write_parquet(folder / f"{_PIECES}.parquet")
    files = {
        name: _compute_check((folder / name).read_bytes()) for name in sorted(os.listdir(folder))
    }
    path = os.fsencode(trace.offsets.path.resolve()).decode("utf-8", "replace")
    entry = msgspec.json.encode(EntryInfo(trace.info, files, path))
    sealed = _SignedEntry(msgspec.Raw(entry), _compute_crc32(entry))
    (folder / _INFO).write_bytes(msgspec.json.encode(sealed))


def read_entry_info(folder: Path) -> EntryInfo:
    """Read the metadata of an entry.

    Raises:
        FileNotFoundError: The entry is missing.
        DamagedEntryError: The entry is damaged.
    """
    try:
        sealed = msgspec.json.decode((folder / _INFO).read_bytes(), type=_SignedEntry)
        if _compute_crc32(bytes(sealed.entry)) != sealed.crc32:
            raise DamagedEntryError(f"{_INFO} does not match its checksum")
        return msgspec.json.decode(sealed.entry, type=EntryInfo)
    except FileNotFoundError:
        raise
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedEntryError(f"{_INFO}: {error}") from error


def load_entry(folder: Path, path: Path, source: FallbackSource) -> Trace:
    """Load the trace in ``folder`` for the file at ``path``.

    Tables are verified on first access. If the entry becomes unusable, ``source`` replaces it.

    Raises:
        FileNotFoundError, DamagedEntryError: As in :func:`read_entry_info`.
    """
    info = read_entry_info(folder)
    for name, check in info.files.items():
        size = (folder / name).stat().st_size
        if size != check.size:
            raise DamagedEntryError(f"{name} has {size:,} of {check.size:,} bytes")
    info_with_source = replace(info.trace, source=path.name)
    reader = _EntryReader(folder, path, info.files, info_with_source, source)
    pieces = reader.read_pieces()
    trace = object.__new__(_CachedTrace)
    offsets = EventOffsets(path, pieces, _EventIndices(reader))
    vars(trace).update(info=info_with_source, offsets=offsets, reader=reader)
    return trace


def _compute_crc32(data: bytes) -> int:
    return int(isal_zlib.crc32(data))


def _compute_check(data: bytes) -> FileCheck:
    return FileCheck(len(data), _compute_crc32(data))


class _EntryReader:
    """Reads the files of an entry on access. If they are unusable, the trace is read again."""

    def __init__(
        self,
        folder: Path,
        path: Path,
        files: dict[str, FileCheck],
        info: TraceInfo,
        source: FallbackSource,
    ) -> None:
        self._folder = folder
        self._path = path
        self._files = files
        self._info = info
        self._source = source
        self._fallback_trace: Trace | None = None

    def read_pieces(self) -> pl.DataFrame:
        """Read ``EventOffsets.pieces``. Raises FileNotFoundError or DamagedEntryError."""
        return self._read(_PIECES, PIECES_SCHEMA)

    def read_table(self, name: str) -> pl.DataFrame:
        """Read a table by its name in SCHEMAS. Raises InputError if the trace has changed."""
        try:
            return self._read(name, _SCHEMAS[name])
        except (FileNotFoundError, DamagedEntryError) as error:
            table: pl.DataFrame = getattr(self._read_source(error), name)
            return table

    def read_event_indices(self, name: str) -> pl.Series:
        """Read the index in traceEvents of each row of a table. Raises as :meth:`read_table`."""
        try:
            return self._read(name, pl.Schema({_EVENT_INDEX: pl.Int64()}))[_EVENT_INDEX]
        except (FileNotFoundError, DamagedEntryError) as error:
            offsets = self._read_source(error).offsets
            assert offsets is not None  # it was read from a file
            return offsets.rows[name]

    def _read(self, name: str, schema: pl.Schema) -> pl.DataFrame:
        file = f"{name}.parquet"
        try:
            data = (self._folder / file).read_bytes()
            if _compute_check(data) != self._files.get(file):
                raise DamagedEntryError(f"{file} does not match its checksum")
            # One chunk per column, as after parsing, so that numpy reads it without a copy.
            frame = pl.read_parquet(io.BytesIO(data), columns=list(schema)).rechunk()
        except FileNotFoundError:
            raise
        except PARQUET_ERRORS as error:
            raise DamagedEntryError(f"{file}: {error}") from error
        if frame.schema != schema:
            raise DamagedEntryError(f"{file} has unexpected columns")
        return frame

    def _read_source(self, error: FileNotFoundError | DamagedEntryError) -> Trace:
        if self._fallback_trace is None:
            trace = self._source.read()
            if trace.info != self._info:
                description = "a different trace from the one opened"
                raise InputError(self._path, description, "the same file", "Open it again.")
            self._source.replace(trace, error if isinstance(error, DamagedEntryError) else None)
            self._fallback_trace = trace
        return self._fallback_trace


class _CachedTrace(Trace):
    """A trace whose cached tables are read on first access.

    No analysis needs the Python functions, which can be most of a trace.
    """

    reader: _EntryReader

    def __getattr__(self, name: str) -> pl.DataFrame:
        if name not in SCHEMAS:
            raise AttributeError(name)
        table = self.reader.read_table(name)
        vars(self)[name] = table
        return table


class _EventIndices(Mapping[str, pl.Series]):
    """Index in traceEvents of each row, by table, read on access."""

    def __init__(self, reader: _EntryReader) -> None:
        self._reader = reader
        self._series: dict[str, pl.Series] = {}

    def __getitem__(self, table: str) -> pl.Series:
        if table not in SCHEMAS:
            raise KeyError(table)
        if table not in self._series:
            self._series[table] = self._reader.read_event_indices(table)
        return self._series[table]

    def __iter__(self) -> Iterator[str]:
        return iter(SCHEMAS)

    def __len__(self) -> int:
        return len(SCHEMAS)


PARQUET_ERRORS: Final[tuple[type[BaseException], ...]] = (
    OSError,
    ValueError,
    pl.exceptions.PolarsError,
    # Not an Exception: unexpected damage, in about one of 200 damaged files.
    pl.exceptions.PanicException,
)
"""Exceptions of Polars for a Parquet file that is missing, damaged or of another kind."""
