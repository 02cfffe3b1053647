"""Experiments that a visitor uploads: a zip file, unpacked into a private folder of this process,
or traces and graphs of other programs, imported there.

Nothing in them is executed, and all of it is read in a process of its own, which is killed when it
takes too long or too much memory.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Final

from graphviz_dash.errors import InputError
from graphviz_dash.importers.confined import import_confined, unpack_confined

MAX_UPLOAD_BYTES: Final = 4 << 30
"""Of all files that are uploaded at once."""

_CHUNK: Final = 1 << 20
_FOLDER_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Uploads:
    """The folder of uploaded experiments; made when first needed, removed with the process."""

    @cached_property
    def folder(self) -> Path:
        """Readable by this user only."""
        folder = Path(tempfile.mkdtemp(prefix="graphviz-dash-uploads-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def add(self, name: str, content: IO[bytes]) -> Path:
        """Unpacks the zip file ``content`` and returns the folder of its experiment.

        ``name`` is the file's name as uploaded; the experiment is called after it, or after the
        folder inside that holds the runs.

        Raises:
            InputError: no zip file, no run bundle in it, a damaged one, or more than the limits.
        """
        label = name[:120]
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=self.folder) as scratch:
            (archive,) = _saved([(name, content)], Path(scratch) / "files")
            staging = Path(scratch) / "experiment"
            title = unpack_confined(archive, staging, label)
            target = self._free(_FOLDER_NAME.sub("-", title or Path(label).stem).strip("-."))
            staging.rename(target)
        return target

    def import_files(self, files: Sequence[tuple[str, IO[bytes]]]) -> Path:
        """Makes an experiment of files by their names as uploaded, as ``graphviz-dash import``
        does, and returns its folder; it is called after the first run.

        Raises:
            InputError: a file that cannot be read, or more than the limits.
        """
        with tempfile.TemporaryDirectory(prefix=".import-", dir=self.folder) as scratch:
            saved = _saved(files, Path(scratch) / "files")
            staging = Path(scratch) / "experiment"
            target = self._free(import_confined(saved, staging))
            staging.rename(target)
        return target

    def _free(self, name: str) -> Path:
        target = self.folder / (name or "upload")
        number = 2
        while target.exists():
            target = self.folder / f"{name or 'upload'}-{number}"
            number += 1
        return target


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
