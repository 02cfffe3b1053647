"""Imported allocator snapshots of an experiment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graphviz_dash.model.run import MemoryUse, Run

SNAPSHOT_GROUPS: Final = (
    ("By stream", "streams"),
    ("By pool", "pools"),
    ("By block size", "sizes"),
    ("By allocating line", "lines"),
)
"""Title and field of each group."""


def list_snapshots(runs: Iterable[Run]) -> tuple[tuple[str, MemoryUse], ...]:
    """List imported runs with a snapshot, and its content."""
    return tuple(
        (run.name, run.memory) for run in runs if run.memory is not None and run.manifest.sources
    )
