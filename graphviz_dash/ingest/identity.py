"""Identify the version of an experiment folder without reading a bundle."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from graphviz_dash.bundle.schema import DESCRIPTION_FILE, MANIFEST_FILE

_DESCRIPTION: Final = DESCRIPTION_FILE.encode()
_MANIFEST: Final = MANIFEST_FILE.encode()
_TRACES: Final = b"/traces"
_DIGEST_BYTES: Final = 16
_SETTLING_NS: Final = 2_000_000_000
"""Time after which a change gets another time stamp, even with coarse clocks."""


class Identity(Struct, frozen=True):
    """Version of an experiment folder."""

    digest: bytes
    """Digest of names, inodes, sizes and times."""
    last_change_ns: int
    """Time of the last change, in ns since 1970; 0 for a folder without runs."""

    def is_stable(self, now_ns: int) -> bool:
        """Return True if any later change gives another digest.

        A file that changes again within one tick of the clock keeps its time stamp.
        """
        return self.last_change_ns + _SETTLING_NS <= now_ns


def compute_identity(experiment: Path) -> bytes:
    """Compute the digest of :func:`measure_identity`."""
    return measure_identity(experiment).digest


def measure_identity(experiment: Path) -> Identity:
    """Identify the version of an experiment by its files.

    The digest changes when a run is added, removed or rewritten, a file of a run changes, a trace
    grows, or graphs are added or removed. A missing folder has a digest, too.
    """
    # Bytes and few calls: a listing of thousands of experiments spends half of its time here.
    folder = os.fsencode(experiment)
    facts: list[_Facts] = []
    for name in sorted(_list_names(folder)):
        if name == _DESCRIPTION:
            with suppress(OSError):
                facts.append(_get_facts(name, os.lstat(folder + b"/" + name)))
            continue
        run = folder + b"/" + name
        # First, because other folders may contain any number of files.
        with suppress(OSError):
            os.stat(run + b"/" + _MANIFEST)
            facts += _list_facts(run, name + b"/")
            facts += _list_facts(run + _TRACES, name + _TRACES + b"/")
    # Times of any size: a file system may keep dates that exceed 64 bits of nanoseconds.
    digest = hashlib.blake2b(repr(facts).encode(), digest_size=_DIGEST_BYTES).digest()
    return Identity(digest, max((file[-1] for file in facts), default=0))


_Facts: TypeAlias = tuple[bytes, int, int, int, int]
"""Path, inode, size, modification and change time of a file."""


def _list_facts(folder: bytes, prefix: bytes) -> list[_Facts]:
    """List the visible files in ``folder`` by name."""
    facts = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name[:1] == b".":
                    continue
                try:
                    status = entry.stat()
                except OSError:
                    continue
                facts.append(_get_facts(prefix + name, status))
    except OSError:
        return []
    facts.sort()
    return facts


def _get_facts(path: bytes, status: os.stat_result) -> _Facts:
    return (path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _list_names(folder: bytes) -> list[bytes]:
    try:
        return [name for name in os.listdir(folder) if name[:1] != b"."]
    except OSError:
        return []
