"""The work that a plan is made of, what passes between its pieces, and the least time of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace


class Operation(Struct, frozen=True):
    """Work that one stream issues in one go: a node of a graph, or the nodes of an operator."""

    duration_ns: float
    """What it takes alone, with what passes between its own nodes."""
    share: float
    """The part of its engine that it keeps busy alone, 0 to 1."""
    after: tuple[int, ...] = ()
    """The operations that it needs, all of them issued before it."""
    nodes: int = 1
    """The nodes of the graph that it makes; without any it takes no time and keeps no order."""
    engine: int = 0
    """What it runs on: 0 the multiprocessors, 1 and 2 what copies to the device and from it."""
    streams: int | None = None
    """It may be issued on the first so many streams only; None: on any."""


class Piece(Struct, frozen=True):
    """A kernel of an operation of several."""

    weight: float
    """What it takes, against the other pieces."""
    share: float
    """The part of the engine that it keeps busy alone, 0 to 1."""


def divided(
    operations: Sequence[Operation], pieces: Sequence[Sequence[Piece]], follow_ns: float
) -> tuple[list[Operation], list[int]]:
    """``operations`` with an operation of its own for each of their ``pieces``, which follow one
    another after ``follow_ns``, and for each the operation that it is of: the kernels of an
    operator ask for unlike parts of a GPU, and wait for others by themselves. What has no pieces
    stays whole."""
    parts: list[Operation] = []
    owners: list[int] = []
    last: dict[int, int] = {}
    for index, operation in enumerate(operations):
        after = tuple(sorted(last[source] for source in operation.after if source in last))
        own = pieces[index]
        if not own:
            parts.append(replace(operation, after=after))
            owners.append(index)
        else:
            total = sum(piece.weight for piece in own)
            left = max(operation.duration_ns - (len(own) - 1) * follow_ns, 0.0)
            for piece in own:
                duration = left * piece.weight / total
                parts.append(
                    replace(
                        operation, duration_ns=duration, share=piece.share, after=after, nodes=1
                    )
                )
                owners.append(index)
                after = (len(parts) - 1,)
        if operation.nodes:
            last[index] = len(parts) - 1
    return parts, owners


class StreamCosts(Struct, frozen=True):
    """What passes between nodes of a graph, in ns."""

    follow_ns: float
    """Between the end of a node and the begin of the next, in a graph of one stream."""
    cross_ns: float
    """Between the end of a node and the begin of one on another stream that waits for it."""
    issue_ns: float = 0.0
    """Between the begins of any two nodes of a graph of several streams, at least: they are
    launched one after another."""
    crowding: float = 0.0
    """By what part of itself each of the kernels beside it lengthens one, however little they ask
    for (:func:`graphviz_dash.planning.simulation.simulate`)."""
    start_ns: float = 0.0
    """What a kernel takes longer that begins beside others, however short it is."""


MEASURED_COSTS: Final = StreamCosts(230.0, 500.0, issue_ns=200.0, crowding=0.06, start_ns=250.0)
"""What was measured on an H200 with driver 580: chains, forks and joins of spinning kernels of
several lengths, and the kernels of fifteen steps in replays of their plans
(evaluation/reports/2026-11-24-parallel.md)."""


class LeastTime(Struct, frozen=True):
    """What no plan can undercut, in ns."""

    path_ns: float
    """The longest chain of operations of which each needs the one before."""
    capacity_ns: float
    """All work at full use of the engine that has most of it."""
    issue_ns: float
    """The launches of all nodes on several streams."""

    @property
    def ns(self) -> float:
        """The largest of the first two, which hold for one stream too."""
        return max(self.path_ns, self.capacity_ns)


def least_time(operations: Sequence[Operation], costs: StreamCosts) -> LeastTime:
    """The bounds of ``operations`` on any number of streams. Linear in their needs."""
    ends = [0.0] * len(operations)
    busy: dict[int, float] = {}
    nearest = min(costs.follow_ns, costs.cross_ns)
    for index, operation in enumerate(operations):
        if operation.nodes:
            begin = max((ends[source] + nearest for source in operation.after), default=0.0)
            ends[index] = begin + operation.duration_ns
            work = operation.duration_ns * operation.share
            busy[operation.engine] = busy.get(operation.engine, 0.0) + work
    launches = sum(operation.nodes for operation in operations)
    return LeastTime(
        max(ends, default=0.0),
        max(busy.values(), default=0.0),
        max(launches - 1, 0) * costs.issue_ns,
    )
