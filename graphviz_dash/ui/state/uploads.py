"""Store uploaded experiments: zip files, or imported files of other tools.

Uploads are never executed. A separate process with time and memory limits reads them. Each visitor
sees only own uploads, which are deleted when the visitor leaves.
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
"""Total size of files uploaded together."""
MAX_EXPERIMENTS: Final = 20
MAX_BYTES_PER_VISITOR: Final = 4 << 30
MAX_ALL_BYTES: Final = 16 << 30
"""All uploads must also leave this size free on disk."""

_MAX_READERS: Final = 4
"""Uploads read concurrently; further ones wait."""
_CHUNK: Final = 1 << 20
_FOLDER_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Uploads:
    """Folders of uploaded experiments by visitor. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[str, Path] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._readers = threading.BoundedSemaphore(_MAX_READERS)

    def get_folder(self, visitor: str) -> Path | None:
        """Return the folder of a visitor's experiments; None before the first upload."""
        with self._lock:
            return self._folders.get(visitor)

    def add(self, visitor: str, name: str, content: IO[bytes]) -> Path:
        """Unpack the zip file ``content`` for ``visitor`` and return the experiment folder.

        It is named after ``name``, or the folder of the runs inside.

        Raises:
            InputError: not a zip file, no run bundle in it, a damaged bundle, or a limit exceeded.
        """
        # Imports the table engine, which the first page does not need.
        from graphviz_dash.importers.confined import unpack_sandboxed

        label = name[:120]

        def unpack_archive(scratch: Path, experiment: Path) -> str:
            (archive,) = _save_files([(name, content)], scratch / "files")
            title = unpack_sandboxed(archive, experiment, label)
            return _FOLDER_NAME.sub("-", title or Path(label).stem).strip("-.")

        return self._create_experiment(visitor, label, unpack_archive)

    def import_files(self, visitor: str, files: Sequence[tuple[str, IO[bytes]]]) -> Path:
        """Import files as ``graphviz-dash import`` does and return the experiment folder.

        The experiment is named after its first run.

        Raises:
            InputError: an unreadable file, or a limit exceeded.
        """
        from graphviz_dash.importers.confined import import_sandboxed

        def import_saved(scratch: Path, experiment: Path) -> str:
            return import_sandboxed(_save_files(files, scratch / "files"), experiment)

        return self._create_experiment(visitor, files[0][0][:120], import_saved)

    def remove(self, visitor: str, experiment: Path) -> None:
        """Delete an experiment that ``visitor`` uploaded; other experiments are ignored."""
        folder = self.get_folder(visitor)
        if folder is not None and experiment.resolve().parent == folder.resolve():
            _remove_experiment(experiment)

    def remove_visitor(self, visitor: str) -> None:
        """Delete all uploads of ``visitor``, after uploads in progress."""
        with self._serialize(visitor):
            with self._lock:
                folder = self._folders.pop(visitor, None)
            if folder is not None:
                for experiment in folder.iterdir():
                    _remove_experiment(experiment)
                folder.rmdir()
        with self._lock:
            self._locks.pop(visitor, None)

    def _create_experiment(
        self, visitor: str, label: str, make: Callable[[Path, Path], str]
    ) -> Path:
        """Create an experiment; ``make`` gets scratch and target folders and returns a name."""
        with self._serialize(visitor), self._readers, _report_storage_errors(label):
            folder = self._create_folder(visitor)
            if len(list(folder.iterdir())) >= MAX_EXPERIMENTS:
                raise _build_limit_error(
                    label, f"the {MAX_EXPERIMENTS + 1}. experiment", f"at most {MAX_EXPERIMENTS}"
                )
            with tempfile.TemporaryDirectory(prefix=".reading-", dir=folder) as scratch:
                experiment = Path(scratch) / "experiment"
                name = make(Path(scratch), experiment)
                self._check_quota(folder, experiment, label)
                target = _find_free_folder(folder, name or "upload")
                experiment.rename(target)
        return target

    def _check_quota(self, folder: Path, experiment: Path, label: str) -> None:
        size = _count_bytes(experiment)
        visitor_bytes = _count_kept_bytes(folder) + size
        if visitor_bytes > MAX_BYTES_PER_VISITOR:
            raise _build_limit_error(label, *_format_limit(visitor_bytes, MAX_BYTES_PER_VISITOR))
        total_bytes = sum(map(_count_kept_bytes, folder.parent.iterdir())) + size
        limit = min(MAX_ALL_BYTES, shutil.disk_usage(folder).free)
        if total_bytes > limit:
            raise _build_limit_error(
                label,
                *_format_limit(total_bytes, limit),
                "Uploads of other visitors are deleted when they leave.",
            )

    def _create_folder(self, visitor: str) -> Path:
        with self._lock:
            if visitor not in self._folders:
                # Do not use the visitor id, a value from the browser, as a folder name.
                folder = SCRATCH.create_subfolder("uploads") / secrets.token_hex(16)
                folder.mkdir(mode=0o700)
                self._folders[visitor] = folder
            return self._folders[visitor]

    @contextmanager
    def _serialize(self, visitor: str) -> Iterator[None]:
        with self._lock:
            turn = self._locks.setdefault(visitor, threading.Lock())
        with turn:
            yield


@contextmanager
def _report_storage_errors(label: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(label, reason, "an upload that the server can store") from error


def _remove_experiment(experiment: Path) -> None:
    STORE.close(experiment)
    shutil.rmtree(experiment, ignore_errors=True)


def _find_free_folder(folder: Path, name: str) -> Path:
    target = folder / name
    number = 2
    while target.exists():
        target = folder / f"{name}-{number}"
        number += 1
    return target


def _count_kept_bytes(visitors: Path) -> int:
    return sum(_count_bytes(path) for path in visitors.iterdir() if not path.name.startswith("."))


def _count_bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _format_limit(actual: int, limit: int) -> tuple[str, str]:
    return f"{actual / (1 << 30):.1f} GiB of uploads", f"at most {limit / (1 << 30):.1f} GiB"


def _build_limit_error(label: str, actual: str, limit: str, advice: str = "") -> InputError:
    return InputError(
        label, actual, limit, advice or "Remove an upload on the Overview page first."
    )


def _save_files(files: Sequence[tuple[str, IO[bytes]]], folder: Path) -> list[Path]:
    """Save the files in ``folder`` under safe names.

    Raises:
        InputError: the files are too large.
    """
    folder.mkdir()
    remaining = MAX_UPLOAD_BYTES
    paths = []
    for name, content in files:
        path = folder / (_FOLDER_NAME.sub("-", Path(name).name[-120:]).strip("-.") or "file")
        while path.exists():
            path = path.with_name(f"again-{path.name}")
        with path.open("xb") as target:
            while chunk := content.read(_CHUNK):
                remaining -= len(chunk)
                if remaining < 0:
                    limit = f"at most {MAX_UPLOAD_BYTES >> 30} GiB in total"
                    raise InputError(name[:120], "larger files", limit)
                target.write(chunk)
        paths.append(path)
    return paths


UPLOADS: Final = Uploads()
