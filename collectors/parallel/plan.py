"""Plans a step: tries the plans that should be fastest, and checks the one that is taken."""

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
"""Plans that are captured and timed, at least, where there are so many."""
_GAIN: Final = 0.99
"""A plan is faster than the line if the median of its replays is below this of the line's."""
_LEAST_LIMIT: Final = 48 << 20
"""What any plan may take: less than two of cuBLAS's workspaces on a Hopper GPU."""
_ROOM: Final = 0.5
"""Of the free memory of the device, what a plan may take that is tried for its time alone."""
_MOST_TRIED: Final = 10
_DELAYED_GRAPHS: Final = 2
_DELAYED_PART: Final = 0.15
_LONGEST_DELAY_CYCLES: Final = 40_000


@dataclass(frozen=True)
class _Tried:
    """A plan that was captured and timed."""

    plan: Plan
    """The plan."""
    attempt: Attempt
    """What came of it."""

    line_ns: float
    """The median replay of the line, in turns with those of the plan."""

    @property
    def gains(self) -> bool:
        """Whether it was faster than the line."""
        return self.part < _GAIN

    @property
    def part(self) -> float:
        """What its median replay takes of the line's: the clock of a GPU changes, so that only
        replays in turns can be compared."""
        return median_ns(self.attempt.replays_ns) / self.line_ns


def plan_step(
    step: Step, memory_factor: float | None, *, tries_larger: bool = False
) -> ParallelPlan:
    """How ``step``, which has been warmed up, is best captured on several streams.

    It is called some dozen times, eagerly and under capture, and afterwards has the state that it
    had before, as have torch's generators of random numbers.

    Args:
        step: what one replay does.
        memory_factor: of the memory of a plain capture, what the plan may take, and 48 MiB in any
            case; None: as much as it likes.
        tries_larger: whether plans that take more and should be worth it are captured and timed,
            not only predicted. The workspaces of their streams stay with this process.

    Raises:
        RefusedError: it cannot be done, or replays differ from eager steps.
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
        room = min(ranks.each(_ROOM * torch.cuda.mem_get_info()[0]))
        tried += [_try(observed, each, ranks) for each in beyond if each.expected_bytes <= room]
        beyond = [each for each in beyond if each.expected_bytes > room]
    within = [each for each in tried if _fits(each, limit)]
    best = min(within, key=lambda each: each.part, default=None)
    number = ranks.first(None if best is None or not best.gains else tried.index(best))
    gains_beyond = bool(beyond) or any(each.gains for each in tried if not _fits(each, limit))
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
            *(each.attempt for each in tried),
            *(_expected(observed, each) for each in beyond),
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
    """Captures a step by a plan, and proves by the graph's own edges that all which shares memory
    is ordered.

    ``fitted_bytes`` is the workspace of wide streams, None being that of any stream; ``delays`` are
    those of :class:`Issuer`, and ``copies`` says whether results are copied.

    Raises:
        RefusedError: the step is not what was observed; or two operators are not ordered, which no
            plan should lead to.
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
    for operator, now in zip(operators, captured, strict=True):
        if bool(operator.nodes) != bool(now.nodes):
            raise RefusedError(
                f"{operator.name or 'code that calls no operator'} made {operator.nodes} nodes of "
                f"the graph, then {now.nodes}",
                operator.source,
            )
    whole = graph.read()
    if sum(issuer.nodes) != len(whole.nodes):
        raise RefusedError("work that no operator shows was launched where there was none before")
    working, edges = without_bookkeeping(captured, whole)
    pair = unordered(working, issuer.addresses, edges)
    if pair is not None:
        names = " and ".join(operators[index].name for index in pair)
        raise RefusedError(f"{names} share memory and would run at the same time")
    return graph, issuer


def _same_step(observed: ObservedStep, ranks: Ranks) -> None:
    """A plan of the first rank is one for all only where all call the same operators.

    Raises:
        RefusedError: they do not.
    """
    own = [(operator.name, operator.nodes > 0, operator.opaque) for operator in observed.operators]
    if any(each != own for each in ranks.each(own)):
        raise RefusedError("ranks whose collectives wait for each other call other operators")


def _tries(
    observed: ObservedStep, plans: Sequence[Candidate], limit: int | None, ranks: Ranks
) -> list[_Tried]:
    """Captures and times the best of ``plans``, on all ranks those of the first."""
    tried: list[_Tried] = []
    for candidate in ranks.first(plans[:_MOST_TRIED]):
        tried.append(_try(observed, candidate, ranks))
        enough = len(tried) >= _TRIED and any(_fits(each, limit) for each in tried)
        if ranks.first(enough):
            break
    return tried


def _expected(observed: ObservedStep, candidate: Candidate) -> Attempt:
    """A plan that is not tried."""
    return Attempt(
        streams=candidate.plan.streams,
        wide_streams=sum(candidate.wide),
        edges=candidate.plan.edges,
        expected_ns=round(candidate.expected_ns + observed.fixed_ns),
        expected_bytes=candidate.expected_bytes,
    )


def _try(observed: ObservedStep, candidate: Candidate, ranks: Ranks) -> _Tried:
    """Captures and times a plan of the first rank, with this one's memory."""
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
    """What :func:`capture_by` makes of an observed step, on all ranks or on none: a rank that
    replays alone would wait for ever."""
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
        raise refusal or RefusedError("another rank cannot be captured so")
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
    """Compares replays of a plan, also of graphs with kernels that spin, with eager steps.

    Raises:
        RefusedError: they differ, or two eager steps differ by too much to tell.
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
        slow, slow_issuer = _captured(observed, plan, ranks, delays)
        delayed.append((slow, slow_issuer.alive))
    checker = Checker(observed)
    outcome = checker.check(graph, issuer.alive, delayed)
    check = outcome.check
    noisy = any(ranks.each(outcome.noisy_at is not None))
    if outcome.noisy_at is not None:
        operator = operators[outcome.noisy_at]
        raise RefusedError(
            f"two eager steps on the same inputs differ by {check.eager_difference:.3g} of the "
            f"largest value, first in {operator.name}: whether replays are right cannot be told",
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
    """Why a plan is refused whose replays differ from eager steps here or on another rank: all run
    the step once more to find the first operator that differs."""
    operators, check = observed.operators, outcome.check
    copying, copier = capture_by(
        observed.step, operators, observed.storages, plan, observed.fitted_bytes, copies=True
    )
    first = checker.first_differing(copying, copier.copies or {})
    index = outcome.differs_at if first is None else first
    if index is None:
        return RefusedError("replays differ from eager steps on another rank")
    return RefusedError(
        f"replays differ from eager steps by {check.difference:.3g} of the largest value, "
        f"first in {operators[index].name} (operator {index}); two eager steps differ by "
        f"{check.eager_difference:.3g}",
        operators[index].source,
    )


def _verdict(observed: ObservedStep, gains: bool, gains_beyond: bool) -> Verdict:
    """Whether a plan gains, within the memory allowed or beyond it, and if none does why."""
    if gains:
        return Verdict.FASTER
    if gains_beyond:
        return Verdict.MEMORY
    whole = step_operations(observed.operators, MEASURED_COSTS)
    kernels, _ = divided(whole, observed.pieces, MEASURED_COSTS.follow_ns)
    return line_verdict(kernels, MEASURED_COSTS)


def _fits(tried: _Tried, limit: int | None) -> bool:
    return limit is None or (tried.attempt.memory_bytes or 0) <= limit
