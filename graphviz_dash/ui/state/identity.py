"""Which version of an experiment lies in its folder, told without reading a bundle."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from graphviz_dash.bundle.schema import MANIFEST

_TRACES: Final = "traces"
_DIGEST_BYTES: Final = 16


def identity_of(experiment: Path) -> bytes:
    """A digest of the names of the runs directly in ``experiment``, and of inode, size and time of
    change of their manifests and traces. It is another when a run arrives, goes or is written anew,
    or a trace grows; a folder that is not there has one, too.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in sorted(entry.name for entry in _entries(experiment)):
        run = experiment / name
        for file in (run / MANIFEST, *sorted(map(Path, _entries(run / _TRACES)))):
            try:
                status = file.stat()
            except OSError:
                continue
            parts = (file.relative_to(experiment), status.st_ino, status.st_size)
            digest.update(repr((*map(str, parts), status.st_mtime_ns)).encode())
    return digest.digest()


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What lies in ``folder`` and is not hidden; nothing where that is none."""
    try:
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if not entry.name.startswith("."))
    except OSError:
        return
