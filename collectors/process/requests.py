"""Request and result files of a pass, besides its bundle parts.

Each pass runs in a separate process because a profiler slows every later launch. Before CUDA 13.1
Update 1 the correlation ids of a second profiling session are also wrong.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from graphviz_dash.model.observers import Observer
from graphviz_dash.model.run import ExecutionMode, Pass

FAILURE_FILE: Final = "failure.json"
WORKLOAD_FILE: Final = "workload.json"
GRAPHS_FILE: Final = "graphs.json"
TRACE_FILE: Final = "trace.json.gz"
ABSENT_FILE: Final = "absent.json"
"""Absent facts of a pass, as a list of Absent; missing if none."""
SERIES_FILE: Final = "series.json"
"""Timed series of one observers process, as a list of Observed."""

NO_SPACE: Final = 3
"""Exit code for a full disk. The last line of stderr holds the error number and, after a space, the
file."""


class GroupRequest(Struct, frozen=True):
    """Rendezvous of a pass's worker with those of other ranks."""

    rank: int
    """Global rank, from 0."""
    world_size: int
    local_rank: int
    """Index of its GPU on this machine, from 0."""
    address: str
    """Host of the ranks' store."""
    port: int
    prefix: str
    """Key prefix in the store, unique to the pass."""
    timeout_s: int
    """Time limit of a collective."""


class PassRequest(Struct, frozen=True):
    """Request for one pass of one run."""

    kind: Pass
    mode: ExecutionMode
    factory: str
    """``module:function`` of the workload's factory."""
    seed: int
    warmup: int
    iterations: int
    """Timed iterations per series of this process."""
    traced_iterations: int
    out: str
    """Existing empty folder for the results."""
    group: GroupRequest | None = None
    """Rendezvous with other ranks, or None."""
    settings: tuple[str, ...] = ()
    observer: Observer | None = None
    """Observer to attach, or None in other passes."""
    turn: int = 0
    """Index of the clean process, from 0."""
    plan: str | None = None
    """Folder of the plan pass, or None if unplanned."""
