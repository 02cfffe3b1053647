"""Work units of a plan, stream costs, and lower bounds of the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace


class Operation(Struct, frozen=True):
    """Work issued by one stream without interruption: a graph node, or the nodes of an operator."""

    duration_ns: float
    """Time without concurrent work, including gaps between its nodes, in ns."""
    share: float
    """Share of its engine without concurrent work, 0 to 1."""
    dependencies: tuple[int, ...] = ()
    """Indices of the operations it depends on, all issued earlier."""
    nodes: int = 1
    """Operations without nodes have no time and no order."""
    engine: int = 0
    """Engine: 0 for the multiprocessors, 1 and 2 for copies to and from the device."""
    max_streams: int | None = None
    """Leading streams that may issue it. None for any stream."""


class Piece(Struct, frozen=True):
    """A kernel of an operation with several kernels."""

    weight: float
    share: float
    """Share of the engine without concurrent work, 0 to 1."""


def split_operations(
    operations: Sequence[Operation], pieces: Sequence[Sequence[Piece]], gap_ns: float
) -> tuple[list[Operation], list[int]]:
    """Split operations into their ``pieces``, each ``gap_ns`` after the previous one.

    Kernels of an operator use different shares of a GPU and wait individually. Operations without
    pieces are kept. Returns the new operations, and for each the index of its original operation.
    """
    parts: list[Operation] = []
    owners: list[int] = []
    last_parts: dict[int, int] = {}
    for index, operation in enumerate(operations):
        after = tuple(
            sorted(last_parts[source] for source in operation.dependencies if source in last_parts)
        )
        operation_pieces = pieces[index]
        if not operation_pieces:
            parts.append(replace(operation, dependencies=after))
            owners.append(index)
        else:
            total = sum(piece.weight for piece in operation_pieces)
            remaining_ns = max(operation.duration_ns - (len(operation_pieces) - 1) * gap_ns, 0.0)
            for piece in operation_pieces:
                duration = remaining_ns * piece.weight / total
                parts.append(
                    replace(
                        operation,
                        duration_ns=duration,
                        share=piece.share,
                        dependencies=after,
                        nodes=1,
                    )
                )
                owners.append(index)
                after = (len(parts) - 1,)
        if operation.nodes:
            last_parts[index] = len(parts) - 1
    return parts, owners


class StreamCosts(Struct, frozen=True):
    """Gaps between nodes of a graph, in ns."""

    same_stream_gap_ns: float
    """Gap between the end of a node and the start of the next one, in a graph of one stream."""
    cross_stream_gap_ns: float
    """Gap between the end of a node and the start of a dependent node on another stream."""
    issue_ns: float = 0.0
    """Minimum time between the starts of any two nodes of a graph with several streams, launched
    one after another."""
    contention: float = 0.0
    """Relative slowdown per concurrent kernel, independent of their shares."""
    start_ns: float = 0.0
    """Additional time of a kernel that starts during others, independent of its duration."""


MEASURED_COSTS: Final = StreamCosts(230.0, 500.0, issue_ns=200.0, contention=0.06, start_ns=250.0)
"""Measured on an H200 with driver 580: chains, forks and joins of spinning kernels of several
lengths, and kernels of fifteen steps in replays of their plans
(evaluation/reports/2026-11-24-parallel.md)."""


class TimeBounds(Struct, frozen=True):
    """Lower bounds of the time of any plan, in ns."""

    path_ns: float
    """Duration of the longest dependency chain."""
    capacity_ns: float
    """Total work at full utilisation of the busiest engine."""
    issue_ns: float
    """Launches of all nodes on several streams."""

    @property
    def lower_bound_ns(self) -> float:
        """Maximum of the first two bounds, which also hold for one stream."""
        return max(self.path_ns, self.capacity_ns)


def compute_time_bounds(operations: Sequence[Operation], costs: StreamCosts) -> TimeBounds:
    """Compute the bounds of ``operations`` on any number of streams, in time linear in
    dependencies."""
    ends = [0.0] * len(operations)
    busy: dict[int, float] = {}
    min_gap_ns = min(costs.same_stream_gap_ns, costs.cross_stream_gap_ns)
    for index, operation in enumerate(operations):
        if operation.nodes:
            start = max(
                (ends[source] + min_gap_ns for source in operation.dependencies), default=0.0
            )
            ends[index] = start + operation.duration_ns
            work = operation.duration_ns * operation.share
            busy[operation.engine] = busy.get(operation.engine, 0.0) + work
    launches = sum(operation.nodes for operation in operations)
    return TimeBounds(
        max(ends, default=0.0),
        max(busy.values(), default=0.0),
        max(launches - 1, 0) * costs.issue_ns,
    )
