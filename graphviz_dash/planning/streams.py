"""Stream assignment of a step's operations that minimises replay time.

A stream runs its operations in program order, so each delays the next one with or without a
dependency. The optimum is NP-hard. Three heuristics are tried, and the assignment with the shortest
simulated replay is selected: the stream with the earliest start (list scheduling, Graham 1969, in
program order), dependency chains packed onto streams as intervals, and chains in program order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.model.parallel import Verdict
from graphviz_dash.planning.operations import Operation, StreamCosts, compute_time_bounds
from graphviz_dash.planning.simulation import Schedule, Wait, simulate

_NO_GAIN_FRACTION: Final = 0.9
"""Fraction of the serial time above which no gain is worthwhile."""

_Heuristic: TypeAlias = Callable[[Sequence[Operation], int, StreamCosts], list[int]]


class StreamPlan(Struct, frozen=True):
    """Operations on streams, with their simulated replay."""

    stream: tuple[int, ...]
    """Numbered from 0 without gaps; 0 for operations without nodes."""
    schedule: Schedule

    @property
    def stream_count(self) -> int:
        """Number of streams."""
        return max(self.stream, default=0) + 1


def plan_streams(
    operations: Sequence[Operation], streams: int, costs: StreamCosts
) -> tuple[StreamPlan, ...]:
    """Compute the best plans on 1, 2, ... up to ``streams`` streams.

    No plan is slower than the previous one, which is repeated if more streams have no benefit.
    Near-linear in operations and dependencies, per number of streams.
    """
    plans = [_simulate_plan(operations, (0,) * len(operations), replace(costs, issue_ns=0.0))]
    # Heuristics often agree with each other and with fewer streams.
    plan_by_lanes: dict[tuple[int, ...], StreamPlan] = {}
    for count in range(2, streams + 1):
        for choose in _HEURISTICS:
            lanes = _number_lanes(operations, choose(operations, count, costs))
            if lanes not in plan_by_lanes:
                plan_by_lanes[lanes] = _simulate_plan(operations, lanes, costs)
        plans.append(
            min([plans[-1], *plan_by_lanes.values()], key=lambda plan: plan.schedule.total_ns)
        )
    return tuple(plans)


def predict_replay_ns(
    operations: Sequence[Operation], stream: Sequence[int], costs: StreamCosts
) -> float:
    """Predict the replay time on these streams."""
    issue_ns = costs.issue_ns if len(set(stream)) > 1 else 0.0
    waits = compute_stream_waits(operations, stream, costs)
    return simulate(operations, waits, issue_ns, costs.contention, costs.start_ns).total_ns


def explain_serial_plan(operations: Sequence[Operation], costs: StreamCosts) -> Verdict:
    """Explain why several streams have no benefit, from the bounds of the serial step.

    Uses predicted serial time, because measured times do not add up exactly.
    """
    line_ns = predict_replay_ns(operations, [0] * len(operations), costs)
    bounds = compute_time_bounds(operations, costs)
    if bounds.path_ns >= _NO_GAIN_FRACTION * line_ns:
        return Verdict.CHAIN
    return Verdict.FULL if bounds.capacity_ns >= _NO_GAIN_FRACTION * line_ns else Verdict.NOISE


def compute_stream_waits(
    operations: Sequence[Operation], stream: Sequence[int], costs: StreamCosts
) -> list[list[Wait]]:
    """Compute the waits of each operation: the previous one on its stream, and dependencies on
    other streams."""
    waits: list[list[Wait]] = []
    tail: dict[int, int] = {}
    for index, operation in enumerate(operations):
        sources: list[Wait] = []
        waits.append(sources)
        if not operation.nodes:
            continue
        lane = stream[index]
        if lane in tail:
            sources.append((tail[lane], costs.same_stream_gap_ns))
        sources += [
            (source, costs.cross_stream_gap_ns)
            for source in operation.dependencies
            if stream[source] != lane
        ]
        tail[lane] = index
    return waits


def _number_lanes(operations: Sequence[Operation], stream: Sequence[int]) -> tuple[int, ...]:
    """Number the streams in use from 0 without gaps."""
    used_lanes = {
        lane for operation, lane in zip(operations, stream, strict=True) if operation.nodes
    }
    number = {lane: rank for rank, lane in enumerate(sorted(used_lanes))}
    return tuple(
        number[lane] if operation.nodes else 0
        for operation, lane in zip(operations, stream, strict=True)
    )


def _simulate_plan(
    operations: Sequence[Operation], lanes: tuple[int, ...], costs: StreamCosts
) -> StreamPlan:
    waits = compute_stream_waits(operations, lanes, costs)
    return StreamPlan(
        lanes, simulate(operations, waits, costs.issue_ns, costs.contention, costs.start_ns)
    )


def _assign_earliest(
    operations: Sequence[Operation], streams: int, costs: StreamCosts
) -> list[int]:
    """Assign each operation to the stream with the earliest start. Ties prefer a stream that ends
    with a dependency, then the stream that ended last."""
    tail = [-1] * streams
    lane_of = [0] * len(operations)
    end = [0.0] * len(operations)
    for index, operation in enumerate(operations):
        if not operation.nodes:
            continue
        choices = []
        for lane in _get_allowed_streams(operation, streams):
            previous = tail[lane]
            free_at = end[previous] + costs.same_stream_gap_ns if previous >= 0 else 0.0
            start = max(
                (
                    end[source]
                    + (
                        costs.same_stream_gap_ns
                        if lane_of[source] == lane
                        else costs.cross_stream_gap_ns
                    )
                    for source in operation.dependencies
                ),
                default=0.0,
            )
            choices.append(
                (max(start, free_at), previous not in operation.dependencies, -free_at, lane)
            )
        start, *_, lane = min(choices)
        lane_of[index], tail[lane] = lane, index
        end[index] = start + operation.duration_ns
    return lane_of


def _assign_chains(operations: Sequence[Operation], streams: int, costs: StreamCosts) -> list[int]:
    """Assign dependency chains to streams by their possible times. A chain continues with the
    longest remaining path."""
    remaining = _compute_longest_paths(operations, costs)
    successor = [-1] * len(operations)
    for index, operation in enumerate(operations):
        for source in operation.dependencies:
            # Ties prefer the later operation: the next call of the program is more likely to start
            # a new chain.
            if successor[source] < 0 or remaining[index] >= remaining[successor[source]]:
                successor[source] = index
    start, end = _compute_earliest_times(operations, costs)
    chain_of = [-1] * len(operations)
    chains: list[list[int]] = []
    for index, operation in enumerate(operations):
        if not operation.nodes:
            continue
        predecessors = [source for source in operation.dependencies if successor[source] == index]
        source = max(predecessors, key=end.__getitem__, default=-1)
        if source < 0:
            chain_of[index] = len(chains)
            chains.append([])
        else:
            chain_of[index] = chain_of[source]
        chains[chain_of[index]].append(index)
    free_at = [0.0] * streams
    lane_of: list[int] = []
    for chain in chains:
        chain_start, chain_end = start[chain[0]], end[chain[-1]]
        candidates = min(
            (_get_allowed_streams(operations[index], streams) for index in chain), key=len
        )
        available = [lane for lane in candidates if free_at[lane] <= chain_start]
        lane = (
            max(available, key=free_at.__getitem__)
            if available
            else min(candidates, key=free_at.__getitem__)
        )
        lane_of.append(lane)
        free_at[lane] = max(free_at[lane], chain_start) + (chain_end - chain_start)
    return [lane_of[chain] if chain >= 0 else 0 for chain in chain_of]


def _assign_continuing(
    operations: Sequence[Operation], streams: int, costs: StreamCosts
) -> list[int]:
    """Assign each operation after a dependency that ends a stream, or to the stream with least
    work."""
    tail = [-1] * streams
    load = [0.0] * streams
    lane_of = [0] * len(operations)
    for index, operation in enumerate(operations):
        if not operation.nodes:
            continue
        candidates = _get_allowed_streams(operation, streams)
        continuing = [lane for lane in candidates if tail[lane] in operation.dependencies]
        lane = min(continuing or candidates, key=load.__getitem__)
        lane_of[index], tail[lane] = lane, index
        load[lane] += operation.duration_ns + costs.same_stream_gap_ns
    return lane_of


def _get_allowed_streams(operation: Operation, streams: int) -> range:
    return range(streams if operation.max_streams is None else min(operation.max_streams, streams))


_HEURISTICS: Final[tuple[_Heuristic, ...]] = (_assign_earliest, _assign_chains, _assign_continuing)


def _compute_longest_paths(operations: Sequence[Operation], costs: StreamCosts) -> list[float]:
    """Compute the duration of each operation with the longest path after it."""
    remaining_after = [0.0] * len(operations)
    remaining = [0.0] * len(operations)
    for index in range(len(operations) - 1, -1, -1):
        remaining[index] = operations[index].duration_ns + remaining_after[index]
        for source in operations[index].dependencies:
            remaining_after[source] = max(
                remaining_after[source], remaining[index] + costs.same_stream_gap_ns
            )
    return remaining


def _compute_earliest_times(
    operations: Sequence[Operation], costs: StreamCosts
) -> tuple[list[float], list[float]]:
    """Compute the times of each operation on unlimited streams."""
    start, end = [0.0] * len(operations), [0.0] * len(operations)
    for index, operation in enumerate(operations):
        start[index] = max(
            (end[source] + costs.same_stream_gap_ns for source in operation.dependencies),
            default=0.0,
        )
        end[index] = start[index] + operation.duration_ns
    return start, end
