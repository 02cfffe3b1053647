"""Plan a step: measure the most promising plans and check the chosen one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_field
from statistics import median
from typing import Final

import torch
from msgspec.structs import replace

from collectors.parallel.candidates import (
    Candidate,
    build_candidates,
    filter_fitting,
    filter_larger,
    find_wide_streams,
)
from collectors.parallel.capture import RefusedError, StepGraph, time_replays
from collectors.parallel.check import Checker, CheckOutcome
from collectors.parallel.issue import OperatorIssuer
from collectors.parallel.observe import ObservedStep, observe_step
from collectors.parallel.ranks import Ranks
from collectors.parallel.streams import allocate_workspaces, get_streams
from collectors.workloads import Step
from graphviz_dash.model.parallel import (
    Attempt,
    Operator,
    ParallelCheck,
    ParallelPlan,
    Storage,
    Verdict,
)
from graphviz_dash.planning.operations import MEASURED_COSTS, split_operations
from graphviz_dash.planning.operators import build_operations, find_dependencies
from graphviz_dash.planning.plan import Plan, build_plan, build_serial_plan
from graphviz_dash.planning.proof import find_unordered_pair, remove_bookkeeping
from graphviz_dash.planning.streams import explain_serial_plan, plan_streams

_MIN_TRIED: Final = 6
"""Minimum number of plans to capture and time, if available."""
_MAX_TIME_RATIO: Final = 0.99
"""Maximum ratio of median replay times that counts as faster."""
_MIN_LIMIT_BYTES: Final = 48 << 20
"""Memory allowed for any plan: less than two cuBLAS workspaces on a Hopper GPU."""
_FREE_MEMORY_SHARE: Final = 0.5
"""Share of free device memory for plans that are tried only for their time."""
_MAX_TRIED: Final = 10
_DELAYED_GRAPHS: Final = 2
_DELAYED_SHARE: Final = 0.15
_MAX_DELAY_CYCLES: Final = 40_000


@dataclass(frozen=True)
class _TriedPlan:
    plan: Plan
    attempt: Attempt

    line_ns: float
    """Median replay of the serial graph, interleaved with the plan's."""

    @property
    def is_faster(self) -> bool:
        return self.time_ratio < _MAX_TIME_RATIO

    @property
    def time_ratio(self) -> float:
        return median(self.attempt.replays_ns) / self.line_ns


def plan_step(
    step: Step, memory_factor: float | None, *, tries_larger: bool = False
) -> ParallelPlan:
    """Plan the capture of a warmed-up ``step`` on several streams.

    Calls the step about a dozen times, and restores its state and torch's random generators.

    Args:
        memory_factor: Memory limit relative to a plain capture, at least 48 MiB. None for no limit.
        tries_larger: Also time worthwhile plans above the limit. Their workspaces stay allocated
            in this process.

    Raises:
        RefusedError: Planning is not possible, or replays differ from eager steps.
    """
    with torch.random.fork_rng(devices=[torch.cuda.current_device()]):
        observed = observe_step(step)
        try:
            return _build_plan(observed, memory_factor, tries_larger)
        finally:
            observed.state.restore()


def _build_plan(
    observed: ObservedStep, memory_factor: float | None, tries_larger: bool
) -> ParallelPlan:
    ranks = Ranks(any(operator.is_collective for operator in observed.operators))
    _check_ranks_agree(observed, ranks)
    limit = None
    if memory_factor is not None:
        limit = max(round(memory_factor * observed.serial_bytes), _MIN_LIMIT_BYTES)
    plans = build_candidates(observed)
    tried = _try_plans(observed, filter_fitting(plans, limit), limit, ranks)
    gpu_ns = observed.serial_ns - observed.fixed_ns
    beyond = ranks.broadcast_first(filter_larger(plans, limit, gpu_ns))
    if tries_larger:
        free_bytes = min(ranks.gather(_FREE_MEMORY_SHARE * torch.cuda.mem_get_info()[0]))
        tried += [
            _try_plan(observed, candidate, ranks)
            for candidate in beyond
            if candidate.expected_bytes <= free_bytes
        ]
        beyond = [candidate for candidate in beyond if candidate.expected_bytes > free_bytes]
    fitting_plans = [candidate for candidate in tried if _fits_limit(candidate, limit)]
    best = min(fitting_plans, key=lambda candidate: candidate.time_ratio, default=None)
    number = ranks.broadcast_first(
        None if best is None or not best.is_faster else tried.index(best)
    )
    gains_beyond = bool(beyond) or any(
        candidate.is_faster for candidate in tried if not _fits_limit(candidate, limit)
    )
    plan = (
        build_serial_plan(observed.operators, observed.storages)
        if number is None
        else tried[number].plan
    )
    check = _check_plan(observed, plan, ranks)
    return ParallelPlan(
        operators=observed.operators,
        storages=observed.storages,
        streams=plan.stream,
        waits=plan.waits,
        same_stream_gap_ns=round(MEASURED_COSTS.same_stream_gap_ns),
        cross_stream_gap_ns=round(MEASURED_COSTS.cross_stream_gap_ns),
        serial=_build_serial_attempt(observed),
        attempts=(
            *(candidate.attempt for candidate in tried),
            *(_predict_attempt(observed, candidate) for candidate in beyond),
        ),
        selected_streams=plan.streams,
        verdict=_choose_verdict(observed, number is not None, gains_beyond),
        memory_limit_bytes=limit,
        check=check,
        narrow_serial_ns=None
        if observed.narrow_serial_ns is None
        else round(observed.narrow_serial_ns),
        workspace_bytes=observed.fitted_bytes,
    )


def capture_with_plan(
    step: Step,
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    plan: Plan,
    fitted_bytes: int | None,
    delays: dict[int, int] | None = None,
    *,
    copies: bool = False,
) -> tuple[StepGraph, OperatorIssuer]:
    """Capture a step by a plan and verify by the graph's edges that all shared memory is ordered.

    ``fitted_bytes`` is the workspace of wide streams, None for the usual size.

    Raises:
        RefusedError: The step differs from the observation, or two operators are unordered.
    """
    streams = get_streams(find_wide_streams(operators, plan), fitted_bytes)
    allocate_workspaces(streams)
    issuer = OperatorIssuer(operators, storages, plan, streams, delays)
    if copies:
        issuer.copies = {}
    graph = StepGraph(step, streams[0], issuer)
    captured = [
        replace(operator, nodes=count)
        for operator, count in zip(operators, issuer.nodes, strict=True)
    ]
    for operator, actual in zip(operators, captured, strict=True):
        if bool(operator.nodes) != bool(actual.nodes):
            raise RefusedError(
                f"{operator.name or 'code that calls no operator'} created {operator.nodes} nodes "
                f"of the graph, then {actual.nodes}",
                operator.source,
            )
    graph_nodes = graph.read_graph()
    if sum(issuer.nodes) != len(graph_nodes.nodes):
        raise RefusedError("work outside operators was launched where there was none before")
    working, edges = remove_bookkeeping(captured, graph_nodes)
    pair = find_unordered_pair(working, issuer.addresses, edges)
    if pair is not None:
        names = " and ".join(operators[index].name for index in pair)
        raise RefusedError(f"{names} share memory but would run concurrently")
    return graph, issuer


def _check_ranks_agree(observed: ObservedStep, ranks: Ranks) -> None:
    """Check that all ranks call the same operators.

    Raises:
        RefusedError: They do not.
    """
    signature = [
        (operator.name, operator.nodes > 0, operator.opaque) for operator in observed.operators
    ]
    if any(other != signature for other in ranks.gather(signature)):
        raise RefusedError("ranks that share collectives call different operators")


def _try_plans(
    observed: ObservedStep, plans: Sequence[Candidate], limit: int | None, ranks: Ranks
) -> list[_TriedPlan]:
    tried: list[_TriedPlan] = []
    for candidate in ranks.broadcast_first(plans[:_MAX_TRIED]):
        tried.append(_try_plan(observed, candidate, ranks))
        enough = len(tried) >= _MIN_TRIED and any(_fits_limit(plan, limit) for plan in tried)
        if ranks.broadcast_first(enough):
            break
    return tried


def _predict_attempt(observed: ObservedStep, candidate: Candidate) -> Attempt:
    return Attempt(
        streams=candidate.plan.streams,
        wide_streams=sum(candidate.wide),
        edges=candidate.plan.edge_count,
        predicted_ns=round(candidate.expected_ns + observed.fixed_ns),
        predicted_bytes=candidate.expected_bytes,
    )


def _try_plan(observed: ObservedStep, candidate: Candidate, ranks: Ranks) -> _TriedPlan:
    operators, storages = observed.operators, observed.storages
    plan = build_plan(operators, storages, find_dependencies(operators), candidate.plan.stream)
    workspaces = allocate_workspaces(get_streams(candidate.wide, observed.fitted_bytes))
    graph, _ = _capture_on_all_ranks(observed, plan, ranks)
    line_replays, replays = time_replays([observed.serial_graph, graph])
    line_ns = median(line_replays)
    return _TriedPlan(
        plan,
        replace(
            _predict_attempt(observed, replace_field(candidate, plan=plan)),
            replays_ns=replays,
            memory_bytes=graph.memory_bytes + workspaces,
            workspace_bytes=workspaces,
            serial_ns=round(line_ns),
        ),
        line_ns,
    )


def _capture_on_all_ranks(
    observed: ObservedStep, plan: Plan, ranks: Ranks, delays: dict[int, int] | None = None
) -> tuple[StepGraph, OperatorIssuer]:
    """Call :func:`capture_with_plan` on all ranks or on none, to avoid a deadlock."""
    refusal, captured = None, None
    try:
        captured = capture_with_plan(
            observed.step,
            observed.operators,
            observed.storages,
            plan,
            observed.fitted_bytes,
            delays,
        )
        if not delays:
            graph, issuer = captured
            observed.check_kernels(graph, issuer.nodes)
    except RefusedError as error:
        refusal = error
    refused = any(ranks.gather(refusal is not None))
    if captured is None or refused:
        raise refusal or RefusedError("the capture failed on another rank")
    captured[0].drop_result()
    return captured


def _build_serial_attempt(observed: ObservedStep) -> Attempt:
    (plan,) = plan_streams(build_operations(observed.operators, MEASURED_COSTS), 1, MEASURED_COSTS)
    return Attempt(
        streams=1,
        wide_streams=1,
        edges=0,
        predicted_ns=round(plan.schedule.total_ns + observed.fixed_ns),
        replays_ns=time_replays([observed.serial_graph])[0],
        memory_bytes=observed.serial_bytes,
        workspace_bytes=observed.stream_workspace_bytes,
    )


def _check_plan(observed: ObservedStep, plan: Plan, ranks: Ranks) -> ParallelCheck:
    """Compare replays of a plan, also with spinning kernels, with eager steps.

    Raises:
        RefusedError: They differ, or two eager steps differ too much to compare.
    """
    operators = observed.operators
    graph, issuer = _capture_on_all_ranks(observed, plan, ranks)
    working = [index for index, operator in enumerate(operators) if operator.nodes]
    delayed = []
    for seed in range(_DELAYED_GRAPHS):
        chance = random.Random(seed)
        delays = {
            index: chance.randrange(_MAX_DELAY_CYCLES)
            for index in working
            if operators[index].name and chance.random() < _DELAYED_SHARE
        }
        delayed_graph, delayed_issuer = _capture_on_all_ranks(observed, plan, ranks, delays)
        delayed.append((delayed_graph, delayed_issuer.alive))
    checker = Checker(observed)
    outcome = checker.check_replays(graph, issuer.alive, delayed)
    check = outcome.check
    noisy = any(ranks.gather(outcome.noisy_at is not None))
    if outcome.noisy_at is not None:
        operator = operators[outcome.noisy_at]
        raise RefusedError(
            f"two eager steps on the same inputs differ by {check.eager_difference:.3g} of the "
            f"largest value, first in {operator.name}: replays cannot be verified",
            operator.source,
        )
    if noisy:
        raise RefusedError("two eager steps on the same inputs differ too much on another rank")
    if any(ranks.gather(outcome.differs_at is not None)):
        raise _explain_difference(observed, plan, checker, outcome)
    return check


def _explain_difference(
    observed: ObservedStep, plan: Plan, checker: Checker, outcome: CheckOutcome
) -> RefusedError:
    """Explain why replays differ. All ranks run the step again."""
    operators, check = observed.operators, outcome.check
    copying_graph, copier = capture_with_plan(
        observed.step, operators, observed.storages, plan, observed.fitted_bytes, copies=True
    )
    first_index = checker.find_first_difference(copying_graph, copier.copies or {})
    index = outcome.differs_at if first_index is None else first_index
    if index is None:
        return RefusedError("replays differ from eager steps on another rank")
    return RefusedError(
        f"replays differ from eager steps by {check.difference:.3g} of the largest value, "
        f"first in {operators[index].name} (operator {index}); two eager steps differ by "
        f"{check.eager_difference:.3g}",
        operators[index].source,
    )


def _choose_verdict(observed: ObservedStep, gains: bool, gains_beyond: bool) -> Verdict:
    if gains:
        return Verdict.FASTER
    if gains_beyond:
        return Verdict.MEMORY
    operations = build_operations(observed.operators, MEASURED_COSTS)
    kernels, _ = split_operations(operations, observed.pieces, MEASURED_COSTS.same_stream_gap_ns)
    return explain_serial_plan(kernels, MEASURED_COSTS)


def _fits_limit(tried: _TriedPlan, limit: int | None) -> bool:
    return limit is None or (tried.attempt.memory_bytes or 0) <= limit
