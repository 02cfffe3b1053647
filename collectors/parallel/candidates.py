"""Build candidate plans of a step and estimate their time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from graphviz_dash.model.parallel import Operator
from graphviz_dash.planning.operations import MEASURED_COSTS, Operation, split_operations
from graphviz_dash.planning.operators import build_operations, find_dependencies
from graphviz_dash.planning.plan import Plan, build_plan
from graphviz_dash.planning.streams import plan_streams, predict_replay_ns

if TYPE_CHECKING:
    from collectors.parallel.observe import ObservedStep

MAX_STREAMS: Final = 8

_WIDE_STREAMS: Final = (1, 2, 3, MAX_STREAMS)
"""Stream counts to try for operators that need workspace."""
_LARGE_STREAMS: Final = (1, 2, 4, 8)
"""Stream counts to try for operators that allocate large blocks."""
_SMALL_SEGMENT: Final = 2 << 20
_LARGE_SEGMENT: Final = 20 << 20
"""Device memory reserved for a stream's first small or large block."""
_FEWER_STREAMS: Final = 0.5
_WORTHWHILE: Final = 0.9
"""Maximum time ratio of a plan that needs more memory."""


@dataclass(frozen=True)
class Candidate:
    """A possible plan."""

    plan: Plan
    wide: tuple[bool, ...]
    expected_ns: float
    """Predicted replay time: serial graph time scaled by the simulated speedup."""
    expected_bytes: int
    """Predicted device memory of the capture, including workspaces."""


def build_candidates(observed: ObservedStep) -> list[Candidate]:
    """Return the fastest plan on several streams per stream count and size, fastest first."""
    operators, storages = observed.operators, observed.storages
    needs = find_dependencies(operators)
    parts, owners = split_operations(
        build_operations(observed.operators, MEASURED_COSTS),
        observed.pieces,
        MEASURED_COSTS.same_stream_gap_ns,
    )
    line_ns = predict_replay_ns(parts, [0] * len(parts), MEASURED_COSTS)
    gpu_ns = observed.serial_ns - observed.fixed_ns
    plans: dict[tuple[int, int, int], Candidate] = {}
    for bound in _build_restrictions(observed):
        for schedule in plan_streams(bound, MAX_STREAMS, MEASURED_COSTS)[1:]:
            if schedule.stream_count == 1:
                continue
            plan = build_plan(operators, storages, needs, schedule.stream)
            wide = find_wide_streams(operators, plan)
            size = _predict_bytes(observed, plan, wide)
            kind = (plan.streams, sum(wide), size)
            plan_ns = predict_replay_ns(
                parts, [plan.stream[owner] for owner in owners], MEASURED_COSTS
            )
            candidate = Candidate(plan, wide, gpu_ns * plan_ns / line_ns, size)
            if kind not in plans or candidate.expected_ns < plans[kind].expected_ns:
                plans[kind] = candidate
    return sorted(
        plans.values(), key=lambda schedule: (schedule.expected_ns, schedule.expected_bytes)
    )


def filter_fitting(plans: Sequence[Candidate], limit: int | None) -> list[Candidate]:
    """Return ``plans`` that should fit ``limit`` bytes, fastest first.

    The third is the fastest of similar plans on at most half the streams.
    """
    fitting = [
        candidate for candidate in plans if limit is None or candidate.expected_bytes <= limit
    ]
    if fitting:
        most = _FEWER_STREAMS * fitting[0].plan.streams
        fewer = next((candidate for candidate in fitting if candidate.plan.streams <= most), None)
        if fewer in fitting[3:]:
            fitting.remove(fewer)
            fitting.insert(2, fewer)
    return fitting


def filter_larger(plans: Sequence[Candidate], limit: int | None, line_ns: float) -> list[Candidate]:
    """Return ``plans`` above ``limit`` bytes that are much faster than all smaller plans and
    ``line_ns``."""
    least_ns = line_ns
    worthwhile = []
    for candidate in sorted(plans, key=lambda candidate: candidate.expected_bytes):
        if limit is not None and candidate.expected_bytes > limit:
            if candidate.expected_ns >= _WORTHWHILE * least_ns:
                continue
            worthwhile.append(candidate)
        least_ns = min(least_ns, candidate.expected_ns)
    return worthwhile


def find_wide_streams(operators: Sequence[Operator], plan: Plan) -> tuple[bool, ...]:
    """Return a wide flag per stream of a plan."""
    wide_lanes = {
        lane
        for operator, lane in zip(operators, plan.stream, strict=True)
        if operator.nodes and (operator.needs_wide_stream or operator.opaque)
    }
    return tuple(lane in wide_lanes for lane in range(plan.streams))


def _build_restrictions(observed: ObservedStep) -> list[list[Operation]]:
    working = [operator for operator in observed.operators if operator.nodes]
    free = build_operations(observed.operators, MEASURED_COSTS)
    bounds = []
    costly = observed.wide_bytes > observed.narrow_bytes
    for wide in (
        _WIDE_STREAMS
        if costly and any(operator.needs_wide_stream for operator in working)
        else _WIDE_STREAMS[-1:]
    ):
        for large in (
            _LARGE_STREAMS
            if any(operator.large_blocks for operator in working)
            else _LARGE_STREAMS[:1]
        ):
            bounds.append(
                [
                    _restrict_operation(operation, operator, wide, large)
                    for operation, operator in zip(free, observed.operators, strict=True)
                ]
            )
    return bounds


def _restrict_operation(
    operation: Operation, operator: Operator, wide: int, large: int
) -> Operation:
    limits = [wide] * operator.needs_wide_stream + [large] * operator.large_blocks
    if operation.max_streams is not None or not limits:
        return operation
    return replace(operation, max_streams=min(limits))


def _predict_bytes(observed: ObservedStep, plan: Plan, wide: tuple[bool, ...]) -> int:
    large = {
        lane
        for operator, lane in zip(observed.operators, plan.stream, strict=True)
        if operator.large_blocks
    }
    pool = observed.serial_bytes - observed.stream_workspace_bytes
    more = (plan.streams - 1) * _SMALL_SEGMENT + max(0, len(large) - 1) * _LARGE_SEGMENT
    workspaces = sum(wide) * observed.wide_bytes + wide.count(False) * observed.narrow_bytes
    return pool + more + workspaces
