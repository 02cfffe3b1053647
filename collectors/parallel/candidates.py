"""The plans of a step that might be taken, and what each should take of time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from graphviz_dash.model.parallel import Operator
from graphviz_dash.planning.operations import MEASURED_COSTS, Operation, divided
from graphviz_dash.planning.operators import dependencies, step_operations
from graphviz_dash.planning.plan import Plan, placed
from graphviz_dash.planning.streams import plan_streams, replay_ns

if TYPE_CHECKING:
    from collectors.parallel.observe import ObservedStep

MOST_STREAMS: Final = 8

_WIDE: Final = (1, 2, 3, MOST_STREAMS)
"""Numbers of streams that operators which need workspace may be on."""
_LARGE: Final = (1, 2, 4, 8)
"""Numbers of streams that operators which take large blocks may be on."""
_SMALL_SEGMENT: Final = 2 << 20
_LARGE_SEGMENT: Final = 20 << 20
"""What torch's allocator takes from the device for the first small and the first large block of a
stream."""
_FEWER: Final = 0.5
_WORTH: Final = 0.9
"""More memory is worth a word for less than this of the time."""


@dataclass(frozen=True)
class Candidate:
    """A plan that might be taken."""

    plan: Plan
    """The plan."""
    wide: tuple[bool, ...]
    """For each stream whether it is a wide one."""
    expected_ns: float
    """What a replay should take on the GPU: what the line was measured to take, shortened as the
    simulation of the plan shortens that of the line."""
    expected_bytes: int
    """What its capture should take from the device, workspaces included."""


def candidates(observed: ObservedStep) -> list[Candidate]:
    """The plans on several streams, for each number of them and each size the fastest, the fastest
    first."""
    operators, storages = observed.operators, observed.storages
    needs = dependencies(operators)
    parts, owners = divided(
        step_operations(observed.operators, MEASURED_COSTS),
        observed.pieces,
        MEASURED_COSTS.follow_ns,
    )
    line_ns = replay_ns(parts, [0] * len(parts), MEASURED_COSTS)
    gpu_ns = observed.line_ns - observed.fixed_ns
    plans: dict[tuple[int, int, int], Candidate] = {}
    for bound in _bounds(observed):
        for each in plan_streams(bound, MOST_STREAMS, MEASURED_COSTS)[1:]:
            if each.streams == 1:
                continue
            plan = placed(operators, storages, needs, each.stream)
            wide = wide_streams(operators, plan)
            size = _expected_bytes(observed, plan, wide)
            kind = (plan.streams, sum(wide), size)
            plan_ns = replay_ns(parts, [plan.stream[owner] for owner in owners], MEASURED_COSTS)
            candidate = Candidate(plan, wide, gpu_ns * plan_ns / line_ns, size)
            if kind not in plans or candidate.expected_ns < plans[kind].expected_ns:
                plans[kind] = candidate
    return sorted(plans.values(), key=lambda each: (each.expected_ns, each.expected_bytes))


def fitting(plans: Sequence[Candidate], limit: int | None) -> list[Candidate]:
    """Those of ``plans``, the fastest first, that should fit ``limit`` bytes; of those that are
    nearly as fast on at most half the streams, the fastest comes third."""
    chosen = [each for each in plans if limit is None or each.expected_bytes <= limit]
    if chosen:
        most = _FEWER * chosen[0].plan.streams
        fewer = next((each for each in chosen if each.plan.streams <= most), None)
        if fewer in chosen[3:]:
            chosen.remove(fewer)
            chosen.insert(2, fewer)
    return chosen


def larger(plans: Sequence[Candidate], limit: int | None, line_ns: float) -> list[Candidate]:
    """Those of ``plans`` that take more than ``limit`` bytes and are worth it, by memory: each
    should take a good deal less time than all that take less memory, and than ``line_ns``, the
    line's."""
    least_ns = line_ns
    worth = []
    for each in sorted(plans, key=lambda each: each.expected_bytes):
        if limit is not None and each.expected_bytes > limit:
            if each.expected_ns >= _WORTH * least_ns:
                continue
            worth.append(each)
        least_ns = min(least_ns, each.expected_ns)
    return worth


def wide_streams(operators: Sequence[Operator], plan: Plan) -> tuple[bool, ...]:
    """For each stream of a plan whether it is a wide one."""
    wide = {
        lane
        for operator, lane in zip(operators, plan.stream, strict=True)
        if operator.nodes and (operator.wide or operator.opaque)
    }
    return tuple(lane in wide for lane in range(plan.streams))


def _bounds(observed: ObservedStep) -> list[list[Operation]]:
    """The operators bound to few streams where they need much memory of them, in several ways."""
    working = [operator for operator in observed.operators if operator.nodes]
    free = step_operations(observed.operators, MEASURED_COSTS)
    bounds = []
    costly = observed.wide_bytes > observed.narrow_bytes
    for wide in _WIDE if costly and any(operator.wide for operator in working) else _WIDE[-1:]:
        for large in _LARGE if any(operator.large for operator in working) else _LARGE[:1]:
            bounds.append(
                [
                    _bound(operation, operator, wide, large)
                    for operation, operator in zip(free, observed.operators, strict=True)
                ]
            )
    return bounds


def _bound(operation: Operation, operator: Operator, wide: int, large: int) -> Operation:
    limits = [wide] * operator.wide + [large] * operator.large
    if operation.streams is not None or not limits:
        return operation
    return replace(operation, streams=min(limits))


def _expected_bytes(observed: ObservedStep, plan: Plan, wide: tuple[bool, ...]) -> int:
    large = {
        lane
        for operator, lane in zip(observed.operators, plan.stream, strict=True)
        if operator.large
    }
    pool = observed.line_bytes - observed.whole_bytes
    more = (plan.streams - 1) * _SMALL_SEGMENT + max(0, len(large) - 1) * _LARGE_SEGMENT
    workspaces = sum(wide) * observed.wide_bytes + wide.count(False) * observed.narrow_bytes
    return pool + more + workspaces
