"""Experiments that visitors upload: a zip file, unpacked into a private folder of its visitor, or
traces and graphs of other programs, imported there.

Nothing in them is executed, and all of it is read in a process of its own, which is killed when it
takes too long or too much memory. Each visitor sees his own alone, and they are gone when he is.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from graphviz_dash.errors import InputError
from graphviz_dash.ui.state.scratch import SCRATCH
from graphviz_dash.ui.state.store import STORE

MAX_UPLOAD_BYTES: Final = 4 << 30
"""Of all files that are uploaded at once."""
MAX_KEPT: Final = 20
"""Experiments that a visitor may have uploaded at a time."""
MAX_KEPT_BYTES: Final = 4 << 30
"""Of a visitor's experiments."""
MAX_ALL_BYTES: Final = 16 << 30
"""Of all visitors' experiments, which also leave as much of the disk free as they take."""

_AT_ONCE: Final = 4
"""Uploads of all visitors that are read at once; more wait."""
_CHUNK: Final = 1 << 20
_FOLDER_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Uploads:
    """Folders of uploaded experiments by visitor, below the server's scratch folder; safe to use
    from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[str, Path] = {}
        self._turns: dict[str, threading.Lock] = {}
        self._readers = threading.BoundedSemaphore(_AT_ONCE)

    def folder(self, visitor: str) -> Path | None:
        """The folder of the experiments that ``visitor`` uploaded; None before the first."""
        with self._lock:
            return self._folders.get(visitor)

    def add(self, visitor: str, name: str, content: IO[bytes]) -> Path:
        """Unpacks the zip file ``content`` for ``visitor``; returns the folder of its experiment.

        ``name`` is the file's name as uploaded; the experiment is called after it, or after the
        folder inside that holds the runs.

        Raises:
            InputError: no zip file, no run bundle in it, a damaged one, or more than the limits.
        """
        # The engine of tables, which the first page of all does not wait for.
        from graphviz_dash.importers.confined import unpack_confined

        label = name[:120]

        def unpacked(scratch: Path, experiment: Path) -> str:
            (archive,) = _saved([(name, content)], scratch / "files")
            title = unpack_confined(archive, experiment, label)
            return _FOLDER_NAME.sub("-", title or Path(label).stem).strip("-.")

        return self._made(visitor, label, unpacked)

    def import_files(self, visitor: str, files: Sequence[tuple[str, IO[bytes]]]) -> Path:
        """Makes an experiment of files by their names as uploaded, as ``graphviz-dash import``
        does, and returns its folder; it is called after the first run.

        Raises:
            InputError: a file that cannot be read, or more than the limits.
        """
        from graphviz_dash.importers.confined import import_confined

        def imported(scratch: Path, experiment: Path) -> str:
            return import_confined(_saved(files, scratch / "files"), experiment)

        return self._made(visitor, files[0][0][:120], imported)

    def remove(self, visitor: str, experiment: Path) -> None:
        """Removes an experiment that ``visitor`` uploaded, from disk and from memory; nothing where
        it is none of his."""
        folder = self.folder(visitor)
        if folder is not None and experiment.resolve().parent == folder.resolve():
            _removed(experiment)

    def leave(self, visitor: str) -> None:
        """Removes all that ``visitor`` uploaded, once what is being read for him is read."""
        with self._turn(visitor):
            with self._lock:
                folder = self._folders.pop(visitor, None)
            if folder is not None:
                for experiment in folder.iterdir():
                    _removed(experiment)
                folder.rmdir()
        with self._lock:
            self._turns.pop(visitor, None)

    def _made(self, visitor: str, label: str, make: Callable[[Path, Path], str]) -> Path:
        """The experiment that ``make`` writes, given a folder for what it needs meanwhile and the
        folder to make, and returns the name of."""
        with self._turn(visitor), self._readers:
            folder = self._folder(visitor)
            if len(list(folder.iterdir())) >= MAX_KEPT:
                raise _too_much(label, f"the {MAX_KEPT + 1}. experiment", f"at most {MAX_KEPT}")
            with tempfile.TemporaryDirectory(prefix=".reading-", dir=folder) as scratch:
                experiment = Path(scratch) / "experiment"
                name = make(Path(scratch), experiment)
                self._check_quota(folder, experiment, label)
                target = _free(folder, name or "upload")
                experiment.rename(target)
        return target

    def _check_quota(self, folder: Path, experiment: Path, label: str) -> None:
        size = _size(experiment)
        own = _kept(folder) + size
        if own > MAX_KEPT_BYTES:
            raise _too_much(label, *_sizes(own, MAX_KEPT_BYTES))
        everyones = sum(map(_kept, folder.parent.iterdir())) + size
        most = min(MAX_ALL_BYTES, shutil.disk_usage(folder).free)
        if everyones > most:
            raise _too_much(label, *_sizes(everyones, most), "Others' uploads go when they leave.")

    def _folder(self, visitor: str) -> Path:
        with self._lock:
            if visitor not in self._folders:
                # The visitor is known by a word of his browser's, which is no name of a folder.
                folder = SCRATCH.subfolder("uploads") / secrets.token_hex(16)
                folder.mkdir(mode=0o700)
                self._folders[visitor] = folder
            return self._folders[visitor]

    @contextmanager
    def _turn(self, visitor: str) -> Iterator[None]:
        """One upload of a visitor after another."""
        with self._lock:
            turn = self._turns.setdefault(visitor, threading.Lock())
        with turn:
            yield


def _removed(experiment: Path) -> None:
    STORE.close(experiment)
    shutil.rmtree(experiment, ignore_errors=True)


def _free(folder: Path, name: str) -> Path:
    target = folder / name
    number = 2
    while target.exists():
        target = folder / f"{name}-{number}"
        number += 1
    return target


def _kept(visitors: Path) -> int:
    """The bytes of a visitor's experiments, without what is being read."""
    return sum(_size(path) for path in visitors.iterdir() if not path.name.startswith("."))


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _sizes(actual: int, most: int) -> tuple[str, str]:
    return f"{actual / (1 << 30):.1f} GiB of uploads", f"at most {most / (1 << 30):.1f} GiB"


def _too_much(label: str, actual: str, most: str, advice: str = "") -> InputError:
    return InputError(label, actual, most, advice or "Remove one on the Overview page first.")


def _saved(files: Sequence[tuple[str, IO[bytes]]], folder: Path) -> list[Path]:
    """The files by their names in ``folder``, made fit for it; InputError if they are too large."""
    folder.mkdir()
    left = MAX_UPLOAD_BYTES
    paths = []
    for name, content in files:
        path = folder / (_FOLDER_NAME.sub("-", Path(name).name[-120:]).strip("-.") or "file")
        while path.exists():
            path = path.with_name(f"again-{path.name}")
        with path.open("xb") as target:
            while chunk := content.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    most = f"at most {MAX_UPLOAD_BYTES >> 30} GiB together"
                    raise InputError(name[:120], "larger files", most)
                target.write(chunk)
        paths.append(path)
    return paths


UPLOADS: Final = Uploads()
