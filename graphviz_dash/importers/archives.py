"""Import of experiments from untrusted zip files.

No content is executed. Only files listed in a run's manifest are unpacked, up to their listed size,
so no path leads outside the target.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

from graphviz_dash.bundle.parts import is_valid_path
from graphviz_dash.bundle.read import read_manifest
from graphviz_dash.bundle.schema import DESCRIPTION_FILE, MANIFEST_FILE, MAX_MANIFEST_BYTES
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.load import load_run

MAX_MEMBERS: Final = 2_000
MAX_UNPACKED_BYTES: Final = 4 << 30
"""Limit for one archive."""

_CHUNK: Final = 1 << 20
_MAX_DESCRIPTION_BYTES: Final = 4_096
_EXPECTED_CONTENT: Final = "a zip file of an experiment: folders of runs, each with a manifest.json"
_UNPACK_ADVICE: Final = (
    "Unpack files of other programs and open the files of one experiment together."
)
_ZIP_ERRORS: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(NotImplementedError, EOFError, OSError, UnicodeError),
)


def unpack_experiment(
    archive: IO[bytes], folder: Path, label: str, limits: Limits = DEFAULT_LIMITS
) -> str:
    """Unpack all runs of ``archive`` into ``folder`` and load each completely, including traces.

    Args:
        archive: The zip file.
        folder: Folder of the experiment. On errors, the caller removes its content.
        label: Name of the archive in errors.
        limits: Limits for loading.

    Returns:
        Name of the folder around the runs; empty if there is none.

    Raises:
        InputError: Not a zip file, no run bundle, an unreadable run, or more than the limits.
        GraphvizDashError: Writing failed.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            title = _unpack_members(opened, folder, label)
    except _ZIP_ERRORS as error:
        raise InputError(label, f"not a readable zip file ({error})", _EXPECTED_CONTENT) from error
    except RuntimeError as error:  # raised by zipfile for an encrypted member
        raise InputError(label, str(error), "a zip file without a password") from error
    nodes = 0
    for bundle in sorted(path for path in folder.iterdir() if path.is_dir()):
        nodes += sum(len(graph.nodes) for graph in load_run(bundle, limits).graphs)
        if nodes > limits.nodes:
            raise limits.build_error(label, "nodes", f"graphs of {nodes:,} nodes or more")
    return title


def _unpack_members(archive: zipfile.ZipFile, folder: Path, label: str) -> str:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise InputError(label, f"{len(members):,} entries", f"at most {MAX_MEMBERS:,}")
    by_path: dict[PurePosixPath, list[zipfile.ZipInfo]] = {}
    for member in members:
        by_path.setdefault(PurePosixPath(member.filename), []).append(member)
    runs = [
        path.parent
        for path in by_path
        if path.name == MANIFEST_FILE and path.parent.name and ".." not in path.parts
    ]
    experiments = {run.parent for run in runs}
    if not runs:
        raise InputError(
            label, f"no folder with a {MANIFEST_FILE}", _EXPECTED_CONTENT, _UNPACK_ADVICE
        )
    if len(experiments) > 1:
        raise InputError(label, f"runs in {len(experiments)} folders", "one experiment")
    remaining = MAX_UNPACKED_BYTES
    for run in runs:
        target = folder / run.name
        target.mkdir(parents=True)
        (manifest, *repeated) = by_path[run / MANIFEST_FILE]
        if repeated:
            raise zipfile.BadZipFile(f"{manifest.filename} is a duplicate entry")
        remaining -= _copy_member(
            archive, manifest, target / MANIFEST_FILE, min(remaining, MAX_MANIFEST_BYTES), label
        )
        for relative_path, size in _iter_listed_files(target):
            for member in by_path.get(run / relative_path, []):
                (target / relative_path).parent.mkdir(parents=True, exist_ok=True)
                remaining -= _copy_member(
                    archive, member, target / relative_path, min(remaining, size), label
                )
    experiment = experiments.pop()
    for member in by_path.get(experiment / DESCRIPTION_FILE, [])[:1]:
        if member.file_size <= _MAX_DESCRIPTION_BYTES:
            _copy_member(
                archive,
                member,
                folder / DESCRIPTION_FILE,
                min(remaining, _MAX_DESCRIPTION_BYTES),
                label,
            )
    return experiment.name


def _iter_listed_files(run: Path) -> Iterator[tuple[str, int]]:
    """Yield path and size of each file listed in a bundle's manifest. The reader rejects unexpected
    paths later."""
    for entry in read_manifest(run).files:
        if is_valid_path(entry.role, entry.path):
            yield entry.path, entry.bytes


def _copy_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, max_bytes: int, label: str
) -> int:
    """Unpack one member and return its size."""
    written = 0
    with archive.open(member) as source, target.open("xb") as file:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > max_bytes:
                actual = f"more than {max_bytes:,} bytes in {member.filename[-80:]}"
                expected = f"the size in its manifest, at most {MAX_UNPACKED_BYTES >> 30} GiB"
                raise InputError(label, actual, expected)
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:
                reason = error.strerror or str(error)
                raise GraphvizDashError(f"{label}: unpacking failed ({reason})") from error
    return written
