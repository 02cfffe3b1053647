"""What captures on several streams took, as a collection of the mode ``parallel`` tried them."""

from __future__ import annotations

from graphviz_dash.analysis.sample_statistics import summarise
from graphviz_dash.model.parallel import Attempt, ParallelPlan


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


def chosen_attempt(plan: ParallelPlan) -> Attempt | None:
    """The attempt that was taken: of those on the chosen number of streams the one that gained
    most; None where none of them was timed."""
    if plan.chosen <= 1:
        return plan.line
    timed = [
        (speedup, attempt)
        for attempt in plan.attempts
        if attempt.streams == plan.chosen and attempt.differs_at is None
        for speedup in (attempt_speedup(plan, attempt),)
        if speedup is not None
    ]
    return max(timed, key=lambda each: each[0])[1] if timed else None
