"""What captures on several streams took, as a collection of the mode ``parallel`` tried them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from graphviz_dash.analysis.sample_statistics import summarise
from graphviz_dash.model.parallel import Attempt, ParallelPlan
from graphviz_dash.planning.operations import MEASURED_COSTS, least_time
from graphviz_dash.planning.operators import step_operations
from graphviz_dash.planning.streams import replay_ns


class LargerPlan(Struct, frozen=True):
    """A plan that takes more memory than was allowed."""

    streams: int
    """How many it uses."""
    time_ns: float
    """Its median replay, or what that was predicted to be."""
    measured: bool
    """Whether it was timed."""
    speedup: float
    """How much faster than the line that is."""
    memory_bytes: int
    """What its capture takes, or should take."""


def attempt_ns(attempt: Attempt) -> float | None:
    """The median replay of an attempt, in ns; None where it was not tried."""
    summary = summarise(list(attempt.replays_ns))
    return None if summary is None else summary.median


def attempt_speedup(plan: ParallelPlan, attempt: Attempt) -> float | None:
    """How much faster than the line an attempt was: where the line was timed in turns with it, than
    that, for the clock of a GPU changes; None where it was not tried."""
    time, line = attempt_ns(attempt), attempt.line_ns or attempt_ns(plan.line)
    return line / time if time and line else None


def measured_streams(plan: ParallelPlan) -> dict[int, float]:
    """The fastest median replay by the number of streams, in ns, the line as one of them."""
    times: dict[int, float] = {}
    for attempt in (plan.line, *plan.attempts):
        time = attempt_ns(attempt)
        if time is not None and attempt.differs_at is None:
            times[attempt.streams] = min(time, times.get(attempt.streams, time))
    return dict(sorted(times.items()))


def attempts_by_streams(plan: ParallelPlan) -> list[Attempt]:
    """The line and all attempts, by streams and then by what they were expected to take."""
    return [
        plan.line,
        *sorted(plan.attempts, key=lambda attempt: (attempt.streams, attempt.expected_ns)),
    ]


def chain_share(plan: ParallelPlan) -> float | None:
    """The longest chain of operators that need each other, as a part of the line's time on the GPU
    by the planner's model: what no number of streams undercuts. None where they were not timed."""
    operations = step_operations(plan.operators, MEASURED_COSTS)
    if not any(operator.device_ns for operator in plan.operators):
        return None
    line_ns = replay_ns(operations, [0] * len(operations), MEASURED_COSTS)
    return least_time(operations, MEASURED_COSTS).path_ns / line_ns


def larger_plans(plan: ParallelPlan) -> tuple[LargerPlan, ...]:
    """The plans that take more memory than was allowed and less time than the line, by memory: each
    less time than those before it."""
    least_ns = attempt_ns(plan.line) or float("inf")
    curve = []
    for each in sorted(_larger(plan), key=lambda each: (each.memory_bytes, each.time_ns)):
        if each.time_ns < least_ns and each.speedup > 1:
            curve.append(each)
            least_ns = each.time_ns
    return tuple(curve)


def _larger(plan: ParallelPlan) -> Iterator[LargerPlan]:
    for attempt in plan.attempts:
        size = attempt.memory_bytes or attempt.expected_bytes
        line_ns = attempt.line_ns or attempt_ns(plan.line)
        if size is None or line_ns is None or attempt.differs_at is not None or _fits(plan, size):
            continue
        timed = attempt_ns(attempt)
        time_ns = attempt.expected_ns if timed is None else timed
        yield LargerPlan(attempt.streams, time_ns, timed is not None, line_ns / time_ns, size)


def _fits(plan: ParallelPlan, size: int) -> bool:
    return plan.memory_limit_bytes is None or size <= plan.memory_limit_bytes


def chosen_attempt(plan: ParallelPlan) -> Attempt | None:
    """The attempt that was taken: of those on the chosen number of streams that take no more memory
    than allowed the one that gained most; None where none of them was timed."""
    if plan.chosen <= 1:
        return plan.line
    timed = [
        (speedup, attempt)
        for attempt in plan.attempts
        if attempt.streams == plan.chosen
        and attempt.differs_at is None
        and _fits(plan, attempt.memory_bytes or 0)
        for speedup in (attempt_speedup(plan, attempt),)
        if speedup is not None
    ]
    return max(timed, key=lambda each: each[0])[1] if timed else None
