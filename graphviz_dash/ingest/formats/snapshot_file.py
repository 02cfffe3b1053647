"""Read an allocator snapshot, a pickle or JSON."""

from __future__ import annotations

from pathlib import Path

from graphviz_dash.ingest.formats.memory_snapshot import convert_memory_use, read_memory_snapshot
from graphviz_dash.ingest.formats.pickles import read_pickle
from graphviz_dash.ingest.formats.registry import SourceKind, require_format
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.run import MemoryUse


def read_snapshot_file(path: Path, limits: Limits = DEFAULT_LIMITS) -> MemoryUse:
    """Read the snapshot at ``path``.

    Raises:
        InputError: Another file, or more than ``limits`` allow.
    """
    if require_format(path, limits).kind is SourceKind.PICKLE:
        return convert_memory_use(read_pickle(path, limits), path, limits)
    return read_memory_snapshot(path, limits)
