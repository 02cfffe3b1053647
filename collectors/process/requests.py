"""What the parent process asks of a pass, and where a pass leaves what is no part of a bundle; its
parts it leaves by :mod:`collectors.process.results`.

Each pass runs in a process of its own: a profiler that was ever attached slows every later launch,
and the correlation ids of a second profiling session are wrong before CUDA 13.1 Update 1.
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
"""What a pass could not find out, as a list of Absent; not there where nothing is."""
SERIES_FILE: Final = "series.json"
"""The series that one process of an observers pass timed, as a list of Observed."""

NO_SPACE: Final = 3
"""Exit code of a pass that could not write because the disk is full; the last line of its stderr
is the error number and, after a space, the file."""


class GroupRequest(Struct, frozen=True):
    """How the worker of a pass meets those of the other ranks."""

    rank: int
    """Of all ranks, from 0."""
    world_size: int
    """How many ranks there are."""
    local_rank: int
    """Of the ranks on this machine, from 0: the index of its GPU."""
    address: str
    """The host of the ranks' store."""
    port: int
    """The port of the ranks' store."""
    prefix: str
    """Of the keys in the store; no other pass has it."""
    timeout_s: int
    """A collective that takes longer fails."""


class PassRequest(Struct, frozen=True):
    """One pass of one run."""

    kind: Pass
    """Which pass it is."""
    mode: ExecutionMode
    """How the step is to run."""
    factory: str
    """``module:function`` of the workload's factory."""
    seed: int
    """torch's seed before the workload is built."""
    warmup: int
    """Iterations before anything is measured or captured."""
    iterations: int
    """Timed iterations of each series of this process."""
    traced_iterations: int
    """Iterations under the profiler."""
    out: str
    """An existing empty folder for the results."""
    group: GroupRequest | None = None
    """How to meet the other ranks; None for a single process."""
    settings: tuple[str, ...] = ()
    """``name=value`` of the workload's parameters."""
    observer: Observer | None = None
    """What an observers pass attaches; None in other passes."""
    turn: int = 0
    """Which of the processes of a clean pass it is, from 0."""
    plan: str | None = None
    """The folder of the pass that planned the step; None in modes that are not planned."""
