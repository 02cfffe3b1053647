"""Experiments out of zip files, which strangers may have made.

Nothing in one is executed. Only the files that a run's manifest lists are unpacked, each at most as
large as it says there, so no path leads anywhere else and nothing is unpacked that is not needed.
"""

from __future__ import annotations

import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

from graphviz_dash.bundle.parts import FIXED_PATHS
from graphviz_dash.bundle.read import read_manifest
from graphviz_dash.bundle.schema import ABOUT, MANIFEST, MAX_MANIFEST_BYTES
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.load import load_run

MAX_MEMBERS: Final = 2_000
MAX_UNPACKED_BYTES: Final = 4 << 30
"""Of one archive."""

_CHUNK: Final = 1 << 20
_MOST_ABOUT_BYTES: Final = 4_096
_FIXED: Final = frozenset(FIXED_PATHS.values())
_GRAPH: Final = re.compile(r"graphs/[^/\\]+\.json")
_EXPECTED: Final = "a zip file of an experiment: folders of runs, each with a manifest.json"
_UNPACK: Final = "Files of other programs: unpack them, and open those of one experiment together."
_UNREADABLE: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(NotImplementedError, EOFError, OSError, UnicodeError),
)
"""What zipfile raises, itself or by the modules behind it, for damaged archives."""


def unpack_experiment(
    archive: IO[bytes], folder: Path, label: str, limits: Limits = DEFAULT_LIMITS
) -> str:
    """Unpacks every run of ``archive`` into ``folder``, reads each as whoever shows it will, its
    traces too, and returns the name of the folder around them, empty if there is none. Errors call
    the archive ``label``.

    Raises:
        InputError: no zip file, no run bundle in it, one that cannot be read, or more than the
            limits.
        GraphvizDashError: the disk refuses; whoever made ``folder`` removes what is in it.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            title = _unpack(opened, folder, label)
    except _UNREADABLE as error:
        raise InputError(label, f"not a readable zip file ({error})", _EXPECTED) from error
    except RuntimeError as error:  # zipfile's word for an encrypted member
        raise InputError(label, str(error), "a zip file without a password") from error
    nodes = 0
    for bundle in sorted(path for path in folder.iterdir() if path.is_dir()):
        nodes += sum(len(graph.nodes) for graph in load_run(bundle, limits).graphs)
        if nodes > limits.nodes:
            raise limits.refuse(label, "nodes", f"graphs of {nodes:,} nodes or more")
    return title


def _unpack(archive: zipfile.ZipFile, folder: Path, label: str) -> str:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise InputError(label, f"{len(members):,} entries", f"at most {MAX_MEMBERS:,}")
    by_path: dict[PurePosixPath, list[zipfile.ZipInfo]] = {}
    for member in members:
        by_path.setdefault(PurePosixPath(member.filename), []).append(member)
    runs = [
        path.parent
        for path in by_path
        if path.name == MANIFEST and path.parent.name and ".." not in path.parts
    ]
    experiments = {run.parent for run in runs}
    if not runs:
        raise InputError(label, f"no {MANIFEST} in a folder of its own", _EXPECTED, _UNPACK)
    if len(experiments) > 1:
        raise InputError(label, f"runs in {len(experiments)} folders", "one experiment")
    left = MAX_UNPACKED_BYTES
    for run in runs:
        target = folder / run.name
        target.mkdir(parents=True)
        (manifest, *repeated) = by_path[run / MANIFEST]
        if repeated:
            raise zipfile.BadZipFile(f"{manifest.filename} stands in it twice")
        left -= _copy(archive, manifest, target / MANIFEST, min(left, MAX_MANIFEST_BYTES), label)
        for inside, size in _listed_files(target):
            for member in by_path.get(run / inside, []):
                (target / inside).parent.mkdir(parents=True, exist_ok=True)
                left -= _copy(archive, member, target / inside, min(left, size), label)
    experiment = experiments.pop()
    for member in by_path.get(experiment / ABOUT, [])[:1]:
        if member.file_size <= _MOST_ABOUT_BYTES:
            _copy(archive, member, folder / ABOUT, min(left, _MOST_ABOUT_BYTES), label)
    return experiment.name


def _listed_files(run: Path) -> Iterator[tuple[str, int]]:
    """Path and size of each file of a bundle, as its manifest lists them; others than a bundle has
    are left out, for reading it to complain about."""
    for entry in read_manifest(run).files:
        if entry.path in _FIXED or _GRAPH.fullmatch(entry.path):
            yield entry.path, entry.bytes


def _copy(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, most: int, label: str
) -> int:
    """Unpacks one member, at most ``most`` bytes of it; returns how many it had."""
    written = 0
    with archive.open(member) as source, target.open("xb") as file:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > most:
                actual = f"more than {most:,} bytes in {member.filename[-80:]}"
                expected = f"what its manifest says, at most {MAX_UNPACKED_BYTES >> 30} GiB"
                raise InputError(label, actual, expected)
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:
                reason = error.strerror or str(error)
                raise GraphvizDashError(f"{label}: could not be unpacked ({reason})") from error
    return written
