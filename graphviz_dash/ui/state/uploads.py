"""Experiments that a visitor uploads: a zip file, unpacked into a private folder of this process,
or traces and graphs of other programs, imported there.

Nothing in them is executed. A member must be one of a bundle's files, so no path leads anywhere
else, and sizes are limited while unpacking, whatever the archive says of itself.
"""

from __future__ import annotations

import atexit
import lzma
import re
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Final

from graphviz_dash.bundle.parts import FIXED_PATHS
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.schema import MANIFEST
from graphviz_dash.errors import InputError

MAX_MEMBERS: Final = 2_000
MAX_UNPACKED_BYTES: Final = 4 << 30
"""Of an archive, and of all files that are imported at once."""

_CHUNK: Final = 1 << 20
_FIXED: Final = frozenset({MANIFEST, *FIXED_PATHS.values()})
_GRAPH: Final = re.compile(r"graphs/[^/\\]+\.json")
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
            staging = Path(scratch) / "experiment"
            try:
                with zipfile.ZipFile(content) as archive:
                    title = _unpack(archive, staging, label)
            except _UNREADABLE as error:
                raise InputError(label, f"not a readable zip file ({error})", _EXPECTED) from error
            except RuntimeError as error:  # zipfile's word for an encrypted member
                raise InputError(label, str(error), "a zip file without a password") from error
            for bundle in sorted(staging.iterdir()):
                read_bundle(bundle)
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
            here = Path(scratch) / "files"
            here.mkdir()
            left = MAX_UNPACKED_BYTES
            places = []
            for name, content in files:
                file = here / (_FOLDER_NAME.sub("-", Path(name).name[-120:]).strip("-.") or "file")
                while file.exists():
                    file = file.with_name(f"again-{file.name}")
                with file.open("xb") as target:
                    while chunk := content.read(_CHUNK):
                        left -= len(chunk)
                        if left < 0:
                            most = f"at most {MAX_UNPACKED_BYTES >> 30} GiB together"
                            raise InputError(name[:120], "larger files", most)
                        target.write(chunk)
                places.append(file)
            from graphviz_dash.importers.bundles import import_files

            runs = import_files(places, Path(scratch) / "experiment")
            target_folder = self._free(runs[0].path.name)
            (Path(scratch) / "experiment").rename(target_folder)
        return target_folder

    def _free(self, name: str) -> Path:
        target = self.folder / (name or "upload")
        number = 2
        while target.exists():
            target = self.folder / f"{name or 'upload'}-{number}"
            number += 1
        return target


_EXPECTED: Final = "a zip file of an experiment: folders of runs, each with a manifest.json"


def _unpack(archive: zipfile.ZipFile, staging: Path, label: str) -> str:
    """Unpacks every run of the archive into ``staging`` and returns the experiment's name."""
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise InputError(label, f"{len(members):,} entries", f"at most {MAX_MEMBERS:,}")
    runs = {
        path.parent
        for path in (PurePosixPath(member.filename) for member in members)
        if path.name == "manifest.json" and path.parent.name and ".." not in path.parts
    }
    experiments = {run.parent for run in runs}
    if not runs:
        raise InputError(label, "no manifest.json in a folder of its own", _EXPECTED)
    if len(experiments) > 1:
        raise InputError(label, f"runs in {len(experiments)} folders", "one experiment")
    left = MAX_UNPACKED_BYTES
    for member in members:
        path = PurePosixPath(member.filename)
        run = next((run for run in runs if path.is_relative_to(run)), None)
        if run is None or member.is_dir():
            continue
        inside = path.relative_to(run).as_posix()
        if ".." in path.parts or not (inside in _FIXED or _GRAPH.fullmatch(inside)):
            continue
        target = staging / run.name / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        left -= _copy(archive, member, target, left, label)
    return experiments.pop().name


def _copy(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, left: int, label: str
) -> int:
    """Unpacks one member, at most ``left`` bytes of it; returns how many it had."""
    written = 0
    with archive.open(member) as source, target.open("xb") as file:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > left:
                raise InputError(
                    label, "more when unpacked", f"at most {MAX_UNPACKED_BYTES >> 30} GiB"
                )
            file.write(chunk)
    return written


_UNREADABLE: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(NotImplementedError, EOFError, OSError, UnicodeError),
)
"""What zipfile raises, itself or by the modules behind it, for damaged archives."""

UPLOADS: Final = Uploads()
