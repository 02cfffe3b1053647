"""Identify the version of an experiment folder without reading a bundle."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from graphviz_dash.bundle.schema import MANIFEST_FILE

_TRACES: Final = "traces"
_DIGEST_BYTES: Final = 16


def compute_identity(experiment: Path) -> bytes:
    """Compute a digest of an experiment's run names and of its manifests and traces.

    Uses inode, size and modification time. The digest changes when a run is added, removed or
    rewritten, or a trace grows. A missing folder has a digest, too.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in sorted(entry.name for entry in _list_entries(experiment)):
        run = experiment / name
        for file in (run / MANIFEST_FILE, *sorted(map(Path, _list_entries(run / _TRACES)))):
            try:
                status = file.stat()
            except OSError:
                continue
            parts = (file.relative_to(experiment), status.st_ino, status.st_size)
            digest.update(repr((*map(str, parts), status.st_mtime_ns)).encode())
    return digest.digest()


def _list_entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the visible entries of ``folder``; none if it is not a folder."""
    try:
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if not entry.name.startswith("."))
    except OSError:
        return
