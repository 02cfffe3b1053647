"""A step captured with only the dependencies that its data needs: what was observed of it, how it
was planned, what was tried, and how the result was checked.

What the operators need of each other is not stored: it follows from the memory that each reaches
(``graphviz_dash.planning.operators``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.timings import Nanoseconds

_COLLECTIVES: Final = ("c10d.", "_c10d_functional.")
"""How the names of torch.distributed's operators begin."""


class Access(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Bytes of a storage that an operator reads, or writes (and may read)."""

    storage: Count
    """Index of the storage."""
    begin: Count
    """The first byte."""
    end: Count
    """The byte behind the last."""
    writes: bool
    """Whether it writes them."""


class Storage(Struct, frozen=True, forbid_unknown_fields=True):
    """Memory that tensors of a step share, as views of each other do."""

    bytes: Count
    """Its size."""
    shape: tuple[Count, ...]
    """Of the first tensor in it that was seen."""
    dtype: str
    """Of that tensor, such as ``float32``."""
    maker: Count | None
    """Index of the operator that made it; None for memory from outside the step."""


class Operator(Struct, frozen=True, forbid_unknown_fields=True):
    """One operator that a step called. Its nodes in the graph follow those of the operators before
    it: a capture makes them in the order of the program, on whichever stream."""

    name: str
    """With its overload, such as ``aten.addmm.default``; empty for work that no operator shows."""
    accesses: tuple[Access, ...]
    """The memory that it reads and writes."""
    nodes: Count
    """The nodes that it put into the graph."""
    opaque: bool = False
    """Whether it may do what its arguments do not show, and keeps its order to all other work."""
    random: bool = False
    """Whether it draws random numbers. Which ones is decided by the order in which operators are
    issued, and that is the program's."""
    wide: bool = False
    """Whether it runs other kernels on a stream with little workspace for libraries, and is kept to
    wide streams."""
    large: bool = False
    """Whether it takes blocks of more than 1 MiB from the allocator, for which a stream has its own
    segments."""
    source: str | None = None
    """``file:line`` of the user's code that called it; None for what autograd's engine called."""
    device_ns: Nanoseconds | None = None
    """What its nodes took in a graph of one stream; None for one without nodes, and where it was
    not measured."""
    demand: float | None = None
    """The share of the multiprocessors that its largest kernel takes from others, 0 to 1; None for
    one without kernels, and where it was not read."""

    @property
    def is_collective(self) -> bool:
        """Whether it talks to other ranks, and keeps its order to all others that do."""
        return self.name.startswith(_COLLECTIVES)


class Attempt(Struct, frozen=True, forbid_unknown_fields=True):
    """One plan: as predicted, and if it was among the best, as captured and timed."""

    streams: Count
    """How many streams it uses; 1 is the line."""
    wide_streams: Count
    """How many of them have much workspace for libraries; the others have little."""
    edges: Count
    """Dependencies between streams."""
    expected_ns: Nanoseconds
    """What a replay was predicted to take."""
    replays_ns: tuple[Nanoseconds, ...] = ()
    """From launch to completion, a replay each; empty where it was not tried."""
    memory_bytes: Count | None = None
    """What its capture took from the device, workspaces included; None where it was not tried."""
    workspace_bytes: Count | None = None
    """The libraries' workspaces of its streams; None as ``memory_bytes``."""
    line_ns: Nanoseconds | None = None
    """The median replay of the line, timed in turns with these; None where it was not."""
    differs_at: Count | None = None
    """Index of the first operator whose results differed from eager; None where none did."""
    expected_bytes: Count | None = None
    """What its capture was predicted to take from the device; None where that was not recorded."""


class Verdict(StrEnum):
    """Whether the step gains by running in parallel, and if not why."""

    FASTER = "faster"
    CHAIN = "chain"
    """Each operator needs the one before: the critical path is the whole line."""
    FULL = "full"
    """The kernels that could run together fill the GPU by themselves."""
    MEMORY = "memory"
    """Faster plans take more memory than allowed."""
    NOISE = "noise"
    """No plan was measurably faster than the line."""


class ParallelCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """Replays compared with eager steps on the same, changed inputs."""

    replays: Count
    """Replays that were compared, each with inputs of its own."""
    delayed_replays: Count
    """Of them those of graphs in which kernels were delayed at random, by kernels that spin."""
    loaded_replays: Count
    """Of them those while another stream kept the GPU busy."""
    tensors: Count
    """Tensors compared after each: results, and what the step wrote outside."""
    bitwise_replays: Count
    """Of them those equal to the eager step in every bit."""
    eager_difference: float
    """The largest difference between two eager steps on the same inputs, relative to the largest
    value of the tensor; 0: they are equal in every bit."""
    difference: float
    """The largest between a replay and an eager step, by the same measure."""


class ParallelPlan(Struct, frozen=True, forbid_unknown_fields=True):
    """parallel.json.gz: how a step was made parallel."""

    operators: tuple[Operator, ...]
    """In the order of the program."""
    storages: tuple[Storage, ...]
    """The memory that they reach, in the order in which it was first seen."""
    stream: tuple[Count, ...]
    """For each operator the stream that it was issued on, 0 being the capture's own."""
    waits: tuple[tuple[Count, ...], ...]
    """For each operator those on other streams that it waits for; what it needs otherwise follows
    from the order on streams."""
    follow_ns: Nanoseconds
    """What the planner took for the time between a node and the next on its stream."""
    cross_ns: Nanoseconds
    """What it took for the time between a node and one on another stream that waits for it."""
    line: Attempt
    """The step captured on one stream."""
    attempts: tuple[Attempt, ...]
    """The plans on several streams, by their number."""
    chosen: Count
    """Streams of the plan that was taken; 1: the line."""
    verdict: Verdict
    """Whether it gains, and if not why."""
    memory_limit_bytes: Count | None
    """What a plan might take; None: as much as it likes."""
    check: ParallelCheck
    """How the plan that was taken was checked."""
    narrow_line_ns: Nanoseconds | None = None
    """The median replay of the line on a stream with little workspace, where operators run other
    kernels, so that results differ in their last bits; None where no operator does."""
    fitted_bytes: Count | None = None
    """The workspace of a wide stream, where its operators were seen to write no more of all that
    their kernels are chosen for; None: it has all."""
