"""The plans of a step that might be taken, and what each should take of time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectors.parallel.observe import ObservedStep
from collectors.parallel.streams import NARROW_KIB
from graphviz_dash.model.parallel import Operator
from graphviz_dash.planning.operations import MEASURED_COSTS, Operation, divided
from graphviz_dash.planning.operators import dependencies
from graphviz_dash.planning.plan import Plan, placed
from graphviz_dash.planning.streams import plan_streams, replay_ns

MOST_STREAMS: Final = 8

_WIDE: Final = (1, 2, 3)
"""Numbers of streams that operators which need workspace may be on."""
_LARGE: Final = (1, 2, 4, 8)
"""Numbers of streams that operators which take large blocks may be on."""
_SMALL_SEGMENT: Final = 2 << 20
_LARGE_SEGMENT: Final = 20 << 20
"""What torch's allocator takes from the device for the first small and the first large block of a
stream."""
_FEWER: Final = 0.5


@dataclass(frozen=True)
class Candidate:
    """A plan that might be taken."""

    plan: Plan
    """The plan."""
    wide: tuple[bool, ...]
    """For each stream whether it is a wide one."""
    expected_ns: float
    """What a replay should take on the GPU: what the line was measured to take, less what the
    simulation of the plan is shorter than that of the line."""
    expected_bytes: int
    """What its capture should take from the device, workspaces included."""


def candidates(observed: ObservedStep, limit: int | None) -> list[Candidate]:
    """The plans that should fit ``limit`` bytes, the fastest first; of those that are nearly as
    fast on at most half the streams, the fastest comes third."""
    operators, storages = observed.operators, observed.storages
    needs = dependencies(operators)
    parts, owners = divided(operations(observed), observed.pieces, MEASURED_COSTS.follow_ns)
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
            shorter = line_ns - replay_ns(
                parts, [plan.stream[owner] for owner in owners], MEASURED_COSTS
            )
            candidate = Candidate(plan, wide, max(gpu_ns - shorter, 0.0), size)
            if kind not in plans or candidate.expected_ns < plans[kind].expected_ns:
                plans[kind] = candidate
    fitting = [each for each in plans.values() if limit is None or each.expected_bytes <= limit]
    fitting.sort(key=lambda each: (each.expected_ns, each.expected_bytes))
    if fitting:
        most = _FEWER * fitting[0].plan.streams
        fewer = next((each for each in fitting if each.plan.streams <= most), None)
        if fewer in fitting[3:]:
            fitting.remove(fewer)
            fitting.insert(2, fewer)
    return fitting


def stream_sizes(wide: Sequence[bool], wide_kib: int | None) -> list[int | None]:
    """What workspace each stream has, in KiB, of which the wide ones are told."""
    return [wide_kib if each else NARROW_KIB for each in wide]


def wide_streams(operators: Sequence[Operator], plan: Plan) -> tuple[bool, ...]:
    """For each stream of a plan whether it is a wide one."""
    wide = {
        lane
        for operator, lane in zip(operators, plan.stream, strict=True)
        if operator.nodes and (operator.wide or operator.opaque)
    }
    return tuple(lane in wide for lane in range(plan.streams))


def operations(observed: ObservedStep) -> list[Operation]:
    """The operators as the planner takes them."""
    return [
        Operation(
            duration_ns=max(0.0, (operator.device_ns or 0) - MEASURED_COSTS.follow_ns),
            share=operator.demand or 0.0,
            after=tuple(need.source for need in needs),
            nodes=operator.nodes,
            streams=1 if operator.opaque or operator.is_collective else None,
        )
        for operator, needs in zip(
            observed.operators, dependencies(observed.operators), strict=True
        )
    ]


def _bounds(observed: ObservedStep) -> list[list[Operation]]:
    """The operators bound to few streams where they need much memory of them, in several ways."""
    working = [operator for operator in observed.operators if operator.nodes]
    free = operations(observed)
    bounds = []
    for wide in _WIDE if any(operator.wide for operator in working) else _WIDE[:1]:
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
    pool = observed.line_bytes - observed.line_workspace_bytes
    more = (plan.streams - 1) * _SMALL_SEGMENT + max(0, len(large) - 1) * _LARGE_SEGMENT
    workspaces = sum(wide) * observed.wide_bytes + wide.count(False) * observed.narrow_bytes
    return pool + more + workspaces
