"""Cache of summaries, so that thousands of experiments are listed without reading bundles.

A summary is a JSON text built from an experiment, such as a row of ``graphviz-dash ls``. Each
belongs to one version of the folder (:mod:`graphviz_dash.ingest.identity`) and of this program. The
cache is a SQLite file with a checksum per row. If it is unusable or accessible to another account,
summaries are built again.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from graphviz_dash import __version__
from graphviz_dash.bundle.files import get_account
from graphviz_dash.ingest.cache_folder import find_cache_folder
from graphviz_dash.ingest.identity import Identity

_LAYOUT: Final = 1
_PREFIX, _SUFFIX = "summaries-", ".sqlite"
_SIDE_FILES: Final = ("", "-journal", "-wal", "-shm")
_MAX_FILES: Final = 4
"""Number of program versions whose files are kept."""
_MAX_BYTES: Final = 1 << 20
"""Maximum length of a summary."""
_CHECK_BYTES: Final = 16
_TIMEOUT_S: Final = 2.0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_PACKAGE: Final = Path(__file__).parents[1]
_UNRELATED_FOLDERS: Final = frozenset({"__pycache__", "site"})

_SCHEMA: Final = (
    "CREATE TABLE summaries (kind TEXT NOT NULL, folder BLOB NOT NULL, identity BLOB NOT NULL, "
    "content BLOB NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY (kind, folder)) WITHOUT ROWID"
)
_SELECT: Final = """
SELECT folder, identity, content, checksum FROM summaries
WHERE kind = ? AND folder >= ? AND folder < ? AND length(content) <= ?
"""
_SELECT_ONE: Final = """
SELECT folder, identity, content, checksum FROM summaries
WHERE kind = ? AND folder = ? AND length(content) <= ?
"""
_REPLACE: Final = "INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?, ?)"
_LIST: Final = "SELECT folder FROM summaries WHERE kind = ? AND folder >= ? AND folder < ?"
_DELETE: Final = "DELETE FROM summaries WHERE kind = ? AND folder = ?"


class Summary(Struct, frozen=True):
    """A summary of one version of an experiment."""

    folder: str
    """Resolved path of the experiment."""
    identity: Identity
    content: bytes


class SummaryCache:
    """Summaries in a SQLite file in ``folder``, created on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.file = folder / f"{_PREFIX}{_compute_program_digest()}{_SUFFIX}"

    def load(self, kind: str, root: Path) -> dict[str, tuple[bytes, bytes]]:
        """Load the identity and content of all summaries of ``kind`` below ``root`` by folder.

        Rows with a wrong checksum are omitted.
        """
        return self._select(_SELECT, kind, _get_ranges(root))

    def load_some(self, kind: str, folders: Iterable[str]) -> dict[str, tuple[bytes, bytes]]:
        """Load identity and content of the summaries of these ``folders``."""
        return self._select(_SELECT_ONE, kind, [(os.fsencode(folder),) for folder in folders])

    def _select(
        self, statement: str, kind: str, keys: Iterable[tuple[bytes, ...]]
    ) -> dict[str, tuple[bytes, bytes]]:
        summaries = {}
        try:
            with self._open() as database:
                for key in keys:
                    for row in database.execute(statement, (kind, *key, _MAX_BYTES)):
                        folder, identity, content, checksum = row
                        if _compute_check(kind, folder, identity, content) == checksum:
                            summaries[os.fsdecode(folder)] = (identity, content)
        except (sqlite3.Error, OSError, TypeError) as error:
            self._handle(error)
        return summaries

    def store(self, kind: str, summaries: Iterable[Summary]) -> None:
        """Store the ``summaries`` of folders that no longer change. Ignores a full, read-only or
        locked cache."""
        now_ns = time.time_ns()
        rows = [
            (kind, os.fsencode(summary.folder), summary.identity.digest, summary.content)
            for summary in summaries
            if summary.identity.is_stable(now_ns) and len(summary.content) <= _MAX_BYTES
        ]
        if not rows:
            return
        try:
            self._create()
            with self._open() as database:
                database.executemany(_REPLACE, ((*row, _compute_check(*row)) for row in rows))
                database.commit()
        except (sqlite3.Error, OSError) as error:
            self._handle(error)

    def prune(self, kind: str, root: Path, folders: Iterable[str]) -> None:
        """Remove the summaries of ``kind`` below ``root``, except those of ``folders``."""
        listed_folders = {os.fsencode(folder) for folder in folders}
        try:
            with self._open() as database:
                folders_in_file = [
                    folder
                    for low, high in _get_ranges(root)
                    for (folder,) in database.execute(_LIST, (kind, low, high))
                ]
                removed_rows = [
                    (kind, folder) for folder in folders_in_file if folder not in listed_folders
                ]
                if removed_rows:
                    database.executemany(_DELETE, removed_rows)
                    database.commit()
        except (sqlite3.Error, OSError) as error:
            self._handle(error)

    def measure_size(self) -> int:
        """Return the size of the files of all program versions, in bytes."""
        return sum(_get_size(file) for file in self._list_files())

    def clear(self) -> int:
        """Remove the files of all program versions and return the freed bytes."""
        size = 0
        for file in self._list_files():
            size += _get_size(file)
            _remove(file)
        return size

    def _create(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.file.exists():
            self._remove_oldest()
            with suppress(FileExistsError):
                os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file if it and its folder belong to this account alone.

        Raises:
            sqlite3.DatabaseError: It is damaged or contains anything but the table.
            FileNotFoundError: It does not exist.
            PermissionError: It is accessible to another account.
        """
        _check_own(self._folder.stat(), self._folder)
        for side in _SIDE_FILES:
            file = self.file.with_name(self.file.name + side)
            try:
                status = file.lstat()
            except FileNotFoundError:
                if not side:
                    raise
                continue
            if not stat.S_ISREG(status.st_mode):
                raise PermissionError(f"{file} is not a regular file")
            _check_own(status, file)
        # Not "ro", so that SQLite completes the transaction of a killed process.
        location = f"{self.file.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(location, uri=True, timeout=_TIMEOUT_S)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            # A row that is lost or damaged costs only time, so no write waits for the disk.
            database.execute("PRAGMA synchronous = OFF")
            if not database.execute("PRAGMA schema_version").fetchone()[0]:
                with suppress(sqlite3.OperationalError):  # another process was faster
                    database.execute(_SCHEMA)
            if database.execute("SELECT sql FROM sqlite_master").fetchall() != [(_SCHEMA,)]:
                raise sqlite3.DatabaseError("unexpected tables")
            yield database

    def _handle(self, error: Exception) -> None:
        if type(error) is sqlite3.DatabaseError or isinstance(error, TypeError):
            _remove(self.file)

    def _list_files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}"))
        except OSError:
            return []

    def _remove_oldest(self) -> None:
        def get_time(file: Path) -> float:
            with suppress(OSError):
                return file.stat().st_mtime
            return 0.0

        for file in sorted(self._list_files(), key=get_time)[: -_MAX_FILES + 1]:
            _remove(file)


def get_default_summaries() -> SummaryCache | None:
    """Return the user's cache, in the folder of the trace cache. None if disabled."""
    folder = find_cache_folder()
    return None if folder is None else SummaryCache(folder)


def _get_ranges(root: Path) -> tuple[tuple[bytes, bytes], ...]:
    """Return the ranges of names of ``root`` and the folders below."""
    name = os.fsencode(root).rstrip(b"/")
    return ((name, name + b"\0"), (name + b"/", name + b"0"))  # "0" follows "/"


def _check_own(status: os.stat_result, path: Path) -> None:
    """Raise PermissionError if another account could have written to ``path``."""
    is_writable = os.name == "posix" and status.st_mode & _OTHERS_WRITE
    if status.st_uid != get_account() or is_writable:
        raise PermissionError(f"{path} is accessible to another account")


def _get_size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _remove(file: Path) -> None:
    for side in _SIDE_FILES:
        with suppress(OSError):
            file.with_name(file.name + side).unlink()


def _compute_check(kind: str, folder: bytes, identity: bytes, content: bytes) -> bytes:
    """Compute the checksum of a row. Raises TypeError for wrong types."""
    digest = hashlib.blake2b(digest_size=_CHECK_BYTES)
    for part in (kind.encode(), folder, identity, content):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


@cache
def _compute_program_digest() -> str:
    """Identify this version of the program by its version number and its files.

    In a clone the files change without a new version.
    """
    parts: list[object] = [_LAYOUT, __version__]
    for folder, folders, files in os.walk(_PACKAGE):
        folders[:] = sorted(set(folders) - _UNRELATED_FOLDERS)
        for file in sorted(files):
            with suppress(FileNotFoundError):
                status = os.stat(f"{folder}/{file}")
                parts.append((file, status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
