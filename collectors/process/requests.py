"""What the parent process asks of a pass, and where a pass leaves its results.

Each pass runs in a process of its own: a profiler that was ever attached slows every later launch,
and the correlation ids of a second profiling session are wrong before CUDA 13.1 Update 1.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from graphviz_dash.model.observers import Observer
from graphviz_dash.model.run import ExecutionMode, Pass

FAILURE_FILE: Final = "failure.json"
CLEAN_FILE: Final = "clean.json"
MEMORY_FILE: Final = "memory.json"
MEMORY_PASS_FILE: Final = "memory-pass.json"
WORKLOAD_FILE: Final = "workload.json"
GRAPHS_FILE: Final = "graphs.json"
UPDATES_FILE: Final = "updates.json"
TRACE_FILE: Final = "trace.json.gz"
ABSENT_FILE: Final = "absent.json"
"""What a pass could not find out, as a list of Absent; not there where nothing is."""
REPLAY_IDS_FILE: Final = "replay-ids.json"
NODE_IDS_FILE: Final = "node-ids.json.gz"
OBSERVERS_FILE: Final = "observers.json"

NO_SPACE: Final = 3
"""Exit code of a pass that could not write because the disk is full; the last line of its stderr
is the error number and, after a space, the file."""


class GroupRequest(Struct, frozen=True):
    """How the worker of a pass meets those of the other ranks: in the store at ``address`` and
    ``port``, under ``prefix``, which no other pass has. A collective that takes longer than
    ``timeout_s`` fails."""

    rank: int
    world_size: int
    local_rank: int
    address: str
    port: int
    prefix: str
    timeout_s: int


class PassRequest(Struct, frozen=True):
    """One pass of one run. ``out`` is an existing empty folder for its results; ``group`` is None
    for a single process; ``settings`` are the ``name=value`` of the workload's parameters;
    ``observer`` is what an observers pass attaches."""

    kind: Pass
    mode: ExecutionMode
    factory: str
    seed: int
    warmup: int
    iterations: int
    traced_iterations: int
    out: str
    group: GroupRequest | None = None
    settings: tuple[str, ...] = ()
    observer: Observer | None = None
