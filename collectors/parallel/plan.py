"""Plan a step: measure the most promising plans and check the chosen one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_field
from typing import Final

import torch
from msgspec.structs import replace

from collectors.parallel.candidates import (
    Candidate,
    candidates,
    fitting,
    larger,
    wide_streams,
)
from collectors.parallel.capture import StepGraph, median_ns, time_replays
from collectors.parallel.check import Checker, Outcome
from collectors.parallel.issue import Issuer
from collectors.parallel.observe import ObservedStep, observe
from collectors.parallel.ranks import Ranks
from collectors.parallel.refusal import RefusedError
from collectors.parallel.streams import make_workspaces, streams_of
from collectors.workloads import Step
from graphviz_dash.model.parallel import (
    Attempt,
    Operator,
    ParallelCheck,
    ParallelPlan,
    Storage,
    Verdict,
)
from graphviz_dash.planning.operations import MEASURED_COSTS, divided
from graphviz_dash.planning.operators import dependencies, step_operations
from graphviz_dash.planning.plan import Plan, line, placed
from graphviz_dash.planning.proof import unordered, without_bookkeeping
from graphviz_dash.planning.streams import line_verdict, plan_streams

_TRIED: Final = 6
"""Minimum number of plans to capture and time, if available."""
_GAIN: Final = 0.99
"""Maximum ratio of median replay times that counts as faster."""
_LEAST_LIMIT: Final = 48 << 20
"""Memory allowed for any plan: less than two cuBLAS workspaces on a Hopper GPU."""
_ROOM: Final = 0.5
"""Share of free device memory for plans that are tried only for their time."""
_MOST_TRIED: Final = 10
_DELAYED_GRAPHS: Final = 2
_DELAYED_PART: Final = 0.15
_LONGEST_DELAY_CYCLES: Final = 40_000


@dataclass(frozen=True)
class _Tried:
    """A captured and timed plan."""

    plan: Plan
    attempt: Attempt

    line_ns: float
    """Median replay of the serial graph in ns, interleaved with the plan's replays."""

    @property
    def gains(self) -> bool:
        """The plan was faster than the serial graph."""
        return self.part < _GAIN

    @property
    def part(self) -> float:
        """Median replay time relative to the serial graph, interleaved because clocks vary."""
        return median_ns(self.attempt.replays_ns) / self.line_ns


def plan_step(
    step: Step, memory_factor: float | None, *, tries_larger: bool = False
) -> ParallelPlan:
    """Plan the capture of a warmed-up ``step`` on several streams.

    Calls the step about a dozen times, and restores its state and torch's random generators.

    Args:
        step: Work of one replay.
        memory_factor: Memory limit relative to a plain capture, at least 48 MiB. None for no limit.
        tries_larger: Also time worthwhile plans above the limit. Their workspaces stay allocated
            in this process.

    Raises:
        RefusedError: Planning is not possible, or replays differ from eager steps.
    """
    with torch.random.fork_rng(devices=[torch.cuda.current_device()]):
        observed = observe(step)
        try:
            return _planned(observed, memory_factor, tries_larger)
        finally:
            observed.state.restore()


def _planned(
    observed: ObservedStep, memory_factor: float | None, tries_larger: bool
) -> ParallelPlan:
    ranks = Ranks(any(operator.is_collective for operator in observed.operators))
    _same_step(observed, ranks)
    limit = None
    if memory_factor is not None:
        limit = max(round(memory_factor * observed.line_bytes), _LEAST_LIMIT)
    plans = candidates(observed)
    tried = _tries(observed, fitting(plans, limit), limit, ranks)
    gpu_ns = observed.line_ns - observed.fixed_ns
    beyond = ranks.first(larger(plans, limit, gpu_ns))
    if tries_larger:
        free_bytes = min(ranks.each(_ROOM * torch.cuda.mem_get_info()[0]))
        tried += [
            _try(observed, candidate, ranks)
            for candidate in beyond
            if candidate.expected_bytes <= free_bytes
        ]
        beyond = [candidate for candidate in beyond if candidate.expected_bytes > free_bytes]
    fitting_plans = [candidate for candidate in tried if _fits(candidate, limit)]
    best = min(fitting_plans, key=lambda candidate: candidate.part, default=None)
    number = ranks.first(None if best is None or not best.gains else tried.index(best))
    gains_beyond = bool(beyond) or any(
        candidate.gains for candidate in tried if not _fits(candidate, limit)
    )
    plan = line(observed.operators, observed.storages) if number is None else tried[number].plan
    check = _checked(observed, plan, ranks)
    return ParallelPlan(
        operators=observed.operators,
        storages=observed.storages,
        stream=plan.stream,
        waits=plan.waits,
        follow_ns=round(MEASURED_COSTS.follow_ns),
        cross_ns=round(MEASURED_COSTS.cross_ns),
        line=_line_attempt(observed),
        attempts=(
            *(candidate.attempt for candidate in tried),
            *(_expected(observed, candidate) for candidate in beyond),
        ),
        chosen=plan.streams,
        verdict=_verdict(observed, number is not None, gains_beyond),
        memory_limit_bytes=limit,
        check=check,
        narrow_line_ns=None if observed.narrow_line_ns is None else round(observed.narrow_line_ns),
        fitted_bytes=observed.fitted_bytes,
    )


def capture_by(
    step: Step,
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    plan: Plan,
    fitted_bytes: int | None,
    delays: dict[int, int] | None = None,
    *,
    copies: bool = False,
) -> tuple[StepGraph, Issuer]:
    """Capture a step by a plan and verify by the graph's edges that all shared memory is ordered.

    ``fitted_bytes`` is the workspace of wide streams, None for the usual size. ``delays`` are
    those of :class:`Issuer`. ``copies`` enables copies of results.

    Raises:
        RefusedError: The step differs from the observation, or two operators are unordered.
    """
    streams = streams_of(wide_streams(operators, plan), fitted_bytes)
    make_workspaces(streams)
    issuer = Issuer(operators, storages, plan, streams, delays)
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
    graph_nodes = graph.read()
    if sum(issuer.nodes) != len(graph_nodes.nodes):
        raise RefusedError("work outside operators was launched where there was none before")
    working, edges = without_bookkeeping(captured, graph_nodes)
    pair = unordered(working, issuer.addresses, edges)
    if pair is not None:
        names = " and ".join(operators[index].name for index in pair)
        raise RefusedError(f"{names} share memory but would run concurrently")
    return graph, issuer


def _same_step(observed: ObservedStep, ranks: Ranks) -> None:
    """Check that all ranks call the same operators.

    Raises:
        RefusedError: They do not.
    """
    signature = [
        (operator.name, operator.nodes > 0, operator.opaque) for operator in observed.operators
    ]
    if any(other != signature for other in ranks.each(signature)):
        raise RefusedError("ranks that share collectives call different operators")


def _tries(
    observed: ObservedStep, plans: Sequence[Candidate], limit: int | None, ranks: Ranks
) -> list[_Tried]:
    """Capture and time the best of the first rank's ``plans``."""
    tried: list[_Tried] = []
    for candidate in ranks.first(plans[:_MOST_TRIED]):
        tried.append(_try(observed, candidate, ranks))
        enough = len(tried) >= _TRIED and any(_fits(plan, limit) for plan in tried)
        if ranks.first(enough):
            break
    return tried


def _expected(observed: ObservedStep, candidate: Candidate) -> Attempt:
    return Attempt(
        streams=candidate.plan.streams,
        wide_streams=sum(candidate.wide),
        edges=candidate.plan.edges,
        expected_ns=round(candidate.expected_ns + observed.fixed_ns),
        expected_bytes=candidate.expected_bytes,
    )


def _try(observed: ObservedStep, candidate: Candidate, ranks: Ranks) -> _Tried:
    operators, storages = observed.operators, observed.storages
    plan = placed(operators, storages, dependencies(operators), candidate.plan.stream)
    workspaces = make_workspaces(streams_of(candidate.wide, observed.fitted_bytes))
    graph, _ = _captured(observed, plan, ranks)
    line_replays, replays = time_replays([observed.line, graph])
    line_ns = median_ns(line_replays)
    return _Tried(
        plan,
        replace(
            _expected(observed, replace_field(candidate, plan=plan)),
            replays_ns=replays,
            memory_bytes=graph.memory_bytes + workspaces,
            workspace_bytes=workspaces,
            line_ns=round(line_ns),
        ),
        line_ns,
    )


def _captured(
    observed: ObservedStep, plan: Plan, ranks: Ranks, delays: dict[int, int] | None = None
) -> tuple[StepGraph, Issuer]:
    """Call :func:`capture_by` on all ranks or on none, to avoid a deadlock."""
    refusal, captured = None, None
    try:
        captured = capture_by(
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
    refused = any(ranks.each(refusal is not None))
    if captured is None or refused:
        raise refusal or RefusedError("the capture failed on another rank")
    captured[0].drop_result()
    return captured


def _line_attempt(observed: ObservedStep) -> Attempt:
    (plan,) = plan_streams(step_operations(observed.operators, MEASURED_COSTS), 1, MEASURED_COSTS)
    return Attempt(
        streams=1,
        wide_streams=1,
        edges=0,
        expected_ns=round(plan.schedule.total_ns + observed.fixed_ns),
        replays_ns=time_replays([observed.line])[0],
        memory_bytes=observed.line_bytes,
        workspace_bytes=observed.whole_bytes,
    )


def _checked(observed: ObservedStep, plan: Plan, ranks: Ranks) -> ParallelCheck:
    """Compare replays of a plan, also with spinning kernels, with eager steps.

    Raises:
        RefusedError: They differ, or two eager steps differ too much to compare.
    """
    operators = observed.operators
    graph, issuer = _captured(observed, plan, ranks)
    working = [index for index, operator in enumerate(operators) if operator.nodes]
    delayed = []
    for seed in range(_DELAYED_GRAPHS):
        chance = random.Random(seed)
        delays = {
            index: chance.randrange(_LONGEST_DELAY_CYCLES)
            for index in working
            if operators[index].name and chance.random() < _DELAYED_PART
        }
        delayed_graph, delayed_issuer = _captured(observed, plan, ranks, delays)
        delayed.append((delayed_graph, delayed_issuer.alive))
    checker = Checker(observed)
    outcome = checker.check(graph, issuer.alive, delayed)
    check = outcome.check
    noisy = any(ranks.each(outcome.noisy_at is not None))
    if outcome.noisy_at is not None:
        operator = operators[outcome.noisy_at]
        raise RefusedError(
            f"two eager steps on the same inputs differ by {check.eager_difference:.3g} of the "
            f"largest value, first in {operator.name}: replays cannot be verified",
            operator.source,
        )
    if noisy:
        raise RefusedError("two eager steps on the same inputs differ too much on another rank")
    if any(ranks.each(outcome.differs_at is not None)):
        raise _difference(observed, plan, checker, outcome)
    return check


def _difference(
    observed: ObservedStep, plan: Plan, checker: Checker, outcome: Outcome
) -> RefusedError:
    """Explain why replays differ; all ranks run the step again to find the first difference."""
    operators, check = observed.operators, outcome.check
    copying_graph, copier = capture_by(
        observed.step, operators, observed.storages, plan, observed.fitted_bytes, copies=True
    )
    first_index = checker.first_differing(copying_graph, copier.copies or {})
    index = outcome.differs_at if first_index is None else first_index
    if index is None:
        return RefusedError("replays differ from eager steps on another rank")
    return RefusedError(
        f"replays differ from eager steps by {check.difference:.3g} of the largest value, "
        f"first in {operators[index].name} (operator {index}); two eager steps differ by "
        f"{check.eager_difference:.3g}",
        operators[index].source,
    )


def _verdict(observed: ObservedStep, gains: bool, gains_beyond: bool) -> Verdict:
    """Return if a plan gains within the memory limit or beyond it, or why none gains."""
    if gains:
        return Verdict.FASTER
    if gains_beyond:
        return Verdict.MEMORY
    operations = step_operations(observed.operators, MEASURED_COSTS)
    kernels, _ = divided(operations, observed.pieces, MEASURED_COSTS.follow_ns)
    return line_verdict(kernels, MEASURED_COSTS)


def _fits(tried: _Tried, limit: int | None) -> bool:
    return limit is None or (tried.attempt.memory_bytes or 0) <= limit
