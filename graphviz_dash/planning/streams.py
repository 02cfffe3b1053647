"""Which stream issues each operation of a step, so that a replay takes the least time.

A stream runs its operations in the order of the program, so that whatever is ahead of an operation
on its stream holds it up, needed or not. Finding the best choice is NP-hard. Three ways to choose
are tried, and the one whose simulated replay is shortest is taken: the stream where an operation
begins first (list scheduling, Graham 1969, in the order of the program), chains of operations that
need each other, laid onto streams as intervals, and the chains that the program itself leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.model.parallel import Verdict
from graphviz_dash.planning.operations import Operation, StreamCosts, least_time
from graphviz_dash.planning.simulation import Schedule, Wait, simulate

_WHOLE: Final = 0.9
"""Of the line's time, a bound that leaves next to nothing to gain."""

_Choice: TypeAlias = Callable[[Sequence[Operation], int, StreamCosts], list[int]]


class StreamPlan(Struct, frozen=True):
    """Operations on streams, and what a replay of them would be."""

    stream: tuple[int, ...]
    """For each operation its stream, numbered from 0 without gaps; 0 for one without nodes."""
    schedule: Schedule
    """When each would run."""

    @property
    def streams(self) -> int:
        """How many streams it uses."""
        return max(self.stream, default=0) + 1


def plan_streams(
    operations: Sequence[Operation], streams: int, costs: StreamCosts
) -> tuple[StreamPlan, ...]:
    """The best plans on 1, 2, ... up to ``streams`` streams: none takes longer than the one before
    it, which it repeats where more streams bring nothing. Near-linear in operations and needs, for
    each number of streams."""
    plans = [_simulated(operations, [0] * len(operations), replace(costs, issue_ns=0.0))]
    for count in range(2, streams + 1):
        plans.append(
            min(
                [plans[-1]]
                + [
                    _simulated(operations, choose(operations, count, costs), costs)
                    for choose in _CHOICES
                ],
                key=lambda plan: plan.schedule.total_ns,
            )
        )
    return tuple(plans)


def replay_ns(operations: Sequence[Operation], stream: Sequence[int], costs: StreamCosts) -> float:
    """What a replay of ``operations`` takes on these streams."""
    issue_ns = costs.issue_ns if len(set(stream)) > 1 else 0.0
    waits = stream_waits(operations, stream, costs)
    return simulate(operations, waits, issue_ns, costs.crowding, costs.start_ns).total_ns


def line_verdict(operations: Sequence[Operation], costs: StreamCosts) -> Verdict:
    """Why several streams gain nothing, by what bounds them of the line as the same model has it:
    measured times of the line and of its operators are never quite of one sum."""
    line_ns = replay_ns(operations, [0] * len(operations), costs)
    least = least_time(operations, costs)
    if least.path_ns >= _WHOLE * line_ns:
        return Verdict.CHAIN
    return Verdict.FULL if least.capacity_ns >= _WHOLE * line_ns else Verdict.NOISE


def stream_waits(
    operations: Sequence[Operation], stream: Sequence[int], costs: StreamCosts
) -> list[list[Wait]]:
    """What each operation waits for on its ``stream``: the one ahead of it there, and of those that
    it needs the ones on other streams."""
    waits: list[list[Wait]] = []
    tail: dict[int, int] = {}
    for index, operation in enumerate(operations):
        sources: list[Wait] = []
        waits.append(sources)
        if not operation.nodes:
            continue
        lane = stream[index]
        if lane in tail:
            sources.append((tail[lane], costs.follow_ns))
        sources += [
            (source, costs.cross_ns) for source in operation.after if stream[source] != lane
        ]
        tail[lane] = index
    return waits


def _simulated(
    operations: Sequence[Operation], stream: Sequence[int], costs: StreamCosts
) -> StreamPlan:
    used = {lane for operation, lane in zip(operations, stream, strict=True) if operation.nodes}
    number = {lane: rank for rank, lane in enumerate(sorted(used))}
    lanes = tuple(
        number[lane] if operation.nodes else 0
        for operation, lane in zip(operations, stream, strict=True)
    )
    waits = stream_waits(operations, lanes, costs)
    return StreamPlan(
        lanes, simulate(operations, waits, costs.issue_ns, costs.crowding, costs.start_ns)
    )


def _earliest(operations: Sequence[Operation], streams: int, costs: StreamCosts) -> list[int]:
    """Each operation where it begins first; of equals behind one that it needs, else behind the one
    that ended last."""
    tail = [-1] * streams
    chosen = [0] * len(operations)
    end = [0.0] * len(operations)
    for index, operation in enumerate(operations):
        if not operation.nodes:
            continue
        choices = []
        for lane in _allowed(operation, streams):
            ahead = tail[lane]
            free = end[ahead] + costs.follow_ns if ahead >= 0 else 0.0
            begin = max(
                (
                    end[source] + (costs.follow_ns if chosen[source] == lane else costs.cross_ns)
                    for source in operation.after
                ),
                default=0.0,
            )
            choices.append((max(begin, free), ahead not in operation.after, -free, lane))
        begin, *_, lane = min(choices)
        chosen[index], tail[lane] = lane, index
        end[index] = begin + operation.duration_ns
    return chosen


def _chains(operations: Sequence[Operation], streams: int, costs: StreamCosts) -> list[int]:
    """Chains of operations that each go on with the follower that has the longest way to the end,
    laid onto streams by when they could run."""
    rest = _longest_rest(operations, costs)
    heir = [-1] * len(operations)
    for index, operation in enumerate(operations):
        for source in operation.after:
            # Of equals the later: what the program calls next is the more likely to have a chain of
            # its own.
            if heir[source] < 0 or rest[index] >= rest[heir[source]]:
                heir[source] = index
    begin, end = _soonest(operations, costs)
    chain_of = [-1] * len(operations)
    chains: list[list[int]] = []
    for index, operation in enumerate(operations):
        if not operation.nodes:
            continue
        ahead = [source for source in operation.after if heir[source] == index]
        source = max(ahead, key=end.__getitem__, default=-1)
        if source < 0:
            chain_of[index] = len(chains)
            chains.append([])
        else:
            chain_of[index] = chain_of[source]
        chains[chain_of[index]].append(index)
    free = [0.0] * streams
    lane_of: list[int] = []
    for chain in chains:
        first, last = begin[chain[0]], end[chain[-1]]
        allowed = min((_allowed(operations[index], streams) for index in chain), key=len)
        fits = [lane for lane in allowed if free[lane] <= first]
        lane = max(fits, key=free.__getitem__) if fits else min(allowed, key=free.__getitem__)
        lane_of.append(lane)
        free[lane] = max(free[lane], first) + (last - first)
    return [lane_of[chain] if chain >= 0 else 0 for chain in chain_of]


def _continued(operations: Sequence[Operation], streams: int, costs: StreamCosts) -> list[int]:
    """Each operation behind one that it needs and that is the last on its stream, else on the
    stream with the least work."""
    tail = [-1] * streams
    load = [0.0] * streams
    chosen = [0] * len(operations)
    for index, operation in enumerate(operations):
        if not operation.nodes:
            continue
        allowed = _allowed(operation, streams)
        behind = [lane for lane in allowed if tail[lane] in operation.after]
        lane = min(behind or allowed, key=load.__getitem__)
        chosen[index], tail[lane] = lane, index
        load[lane] += operation.duration_ns + costs.follow_ns
    return chosen


def _allowed(operation: Operation, streams: int) -> range:
    """The streams that an operation may be issued on."""
    return range(streams if operation.streams is None else min(operation.streams, streams))


_CHOICES: Final[tuple[_Choice, ...]] = (_earliest, _chains, _continued)


def _longest_rest(operations: Sequence[Operation], costs: StreamCosts) -> list[float]:
    """What each operation and the longest way behind it take."""
    behind = [0.0] * len(operations)
    rest = [0.0] * len(operations)
    for index in range(len(operations) - 1, -1, -1):
        rest[index] = operations[index].duration_ns + behind[index]
        for source in operations[index].after:
            behind[source] = max(behind[source], rest[index] + costs.follow_ns)
    return rest


def _soonest(
    operations: Sequence[Operation], costs: StreamCosts
) -> tuple[list[float], list[float]]:
    """When each operation begins and ends on as many streams as it likes."""
    begin, end = [0.0] * len(operations), [0.0] * len(operations)
    for index, operation in enumerate(operations):
        begin[index] = max(
            (end[source] + costs.follow_ns for source in operation.after), default=0.0
        )
        end[index] = begin[index] + operation.duration_ns
    return begin, end
