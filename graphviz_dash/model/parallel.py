"""A step captured with its data dependencies only: observed operators, plan, attempts and checks.

Dependencies between operators are not stored. They follow from the memory that operators access
(``graphviz_dash.planning.operators``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.timings import Nanoseconds

_COLLECTIVES: Final = ("c10d.", "_c10d_functional.")
"""Name prefixes of torch.distributed's operators."""


class Access(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A byte range of a storage that an operator reads, or writes (and may read)."""

    storage: Count
    """Index of the storage."""
    start: Count
    """First byte."""
    end: Count
    """Byte after the last one."""
    writes: bool
    """True for a write."""


class Storage(Struct, frozen=True, forbid_unknown_fields=True):
    """Memory shared by tensors of a step, such as views of each other."""

    bytes: Count
    """Size in bytes."""
    shape: tuple[Count, ...]
    """Shape of the first observed tensor."""
    dtype: str
    """Data type of that tensor, such as ``float32``."""
    creator: Count | None
    """Index of the operator that created it. None for memory from outside the step."""


class Operator(Struct, frozen=True, forbid_unknown_fields=True):
    """One operator called by a step. A capture adds nodes in program order on any stream, so its
    nodes follow those of earlier operators."""

    name: str
    """Name with overload, such as `aten.addmm.default`. May be empty."""
    accesses: tuple[Access, ...]
    """Memory accesses."""
    nodes: Count
    """Graph nodes."""
    opaque: bool = False
    """True if it may have other effects, so that its order to all work is kept."""
    random: bool = False
    """True if it draws random numbers, which depend on the issue order."""
    needs_wide_stream: bool = False
    """True if it runs different kernels with a small library workspace."""
    large_blocks: bool = False
    """True if it allocates blocks of more than 1 MiB, which need segments of their stream."""
    source: str | None = None
    """`file:line` of the user's code. None for calls of autograd's engine."""
    device_ns: Nanoseconds | None = None
    """GPU time of its nodes in a graph of one stream, in ns. None if not measured."""
    demand: float | None = None
    """Share of the multiprocessors that its largest kernel occupies, 0 to 1. None if not read."""

    @property
    def is_collective(self) -> bool:
        """True if it communicates with other ranks. Collectives keep their order."""
        return self.name.startswith(_COLLECTIVES)


class Attempt(Struct, frozen=True, forbid_unknown_fields=True):
    """One plan with its prediction. The best plans are also captured and timed."""

    streams: Count
    """Streams; 1 is the serial capture."""
    wide_streams: Count
    """Streams with a large library workspace."""
    edges: Count
    """Dependencies between streams."""
    predicted_ns: Nanoseconds
    replays_ns: tuple[Nanoseconds, ...] = ()
    """Times from launch to completion per replay, in ns. Empty if not tried."""
    memory_bytes: Count | None = None
    """Device memory of its capture including workspaces, in bytes. None if not tried."""
    workspace_bytes: Count | None = None
    """Workspaces of its streams, in bytes. None if not tried."""
    serial_ns: Nanoseconds | None = None
    """Median replay time of the serial capture, interleaved with these replays, in ns. None if not
    measured.
    """
    differs_at: Count | None = None
    """Index of the first operator with other results than eager. None if all are equal."""
    predicted_bytes: Count | None = None
    """Predicted memory of its capture, in bytes. None if not recorded."""


class Verdict(StrEnum):
    """Outcome of the search for a parallel plan."""

    FASTER = "faster"
    CHAIN = "chain"
    """Each operator depends on the previous one, so the critical path is the serial step."""
    FULL = "full"
    """Kernels that could overlap already fill the GPU."""
    MEMORY = "memory"
    """Faster plans exceed the memory limit."""
    NOISE = "noise"
    """No plan was measurably faster than the serial capture."""


class ParallelCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """Comparison of replays with eager steps on the same, varying inputs."""

    replays: Count
    """Compared replays, each with new inputs."""
    delayed_replays: Count
    """Compared replays with randomly delayed kernels."""
    loaded_replays: Count
    """Compared replays on a busy GPU."""
    tensors: Count
    """Tensors compared per replay: results, and memory written outside the step."""
    bitwise_replays: Count
    """Replays with bitwise equal results."""
    eager_difference: float
    """Largest difference of two eager steps, relative to the tensor's largest value. 0 means
    bitwise equal.
    """
    difference: float
    """Largest difference between a replay and an eager step, likewise relative."""


class ParallelPlan(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of parallel.json.gz: plan and measurements of a parallel step."""

    operators: tuple[Operator, ...]
    """Operators in program order."""
    storages: tuple[Storage, ...]
    """Storages in the order of their first access."""
    streams: tuple[Count, ...]
    """Stream of each operator. 0 is the capture's stream."""
    waits: tuple[tuple[Count, ...], ...]
    """Operators on other streams that each operator waits for."""
    same_stream_gap_ns: Nanoseconds
    """Estimated time between consecutive nodes of a stream, in ns."""
    cross_stream_gap_ns: Nanoseconds
    """Estimated time between dependent nodes on different streams, in ns."""
    serial: Attempt
    """Step captured on one stream."""
    attempts: tuple[Attempt, ...]
    """Plans on several streams, by number of streams."""
    selected_streams: Count
    """Streams of the selected plan. 1 is the serial capture."""
    verdict: Verdict
    """Outcome of the search."""
    memory_limit_bytes: Count | None
    """Memory limit of a plan, in bytes. None for no limit."""
    check: ParallelCheck
    """Check of the selected plan."""
    narrow_serial_ns: Nanoseconds | None = None
    """Median replay time of the serial capture with a small workspace, in ns. Other kernels run
    there, so results differ in their last bits. None if no operator does.
    """
    workspace_bytes: Count | None = None
    """Workspace of a wide stream, in bytes, if its operators need less than the full one. None for
    the full workspace.
    """
