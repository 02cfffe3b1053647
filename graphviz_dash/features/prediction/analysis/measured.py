"""Measured captures on several streams, from a collection in mode ``parallel``."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from graphviz_dash.analysis.sample_statistics import summarise
from graphviz_dash.model.parallel import Attempt, ParallelPlan
from graphviz_dash.planning.operations import MEASURED_COSTS, compute_time_bounds
from graphviz_dash.planning.operators import build_operations
from graphviz_dash.planning.streams import predict_replay_ns


class LargerPlan(Struct, frozen=True):
    """A plan that exceeds the memory limit."""

    streams: int
    time_ns: float
    """Median replay, measured or predicted."""
    measured: bool
    speedup: float
    """Speedup over one stream."""
    memory_bytes: int
    """Memory of its capture, measured or expected."""


def compute_attempt_ns(attempt: Attempt) -> float | None:
    """Return the median replay; None if not tried."""
    summary = summarise(list(attempt.replays_ns))
    return None if summary is None else summary.median


def compute_attempt_speedup(plan: ParallelPlan, attempt: Attempt) -> float | None:
    """Return the speedup over one stream; None if not tried.

    It prefers the single-stream time interleaved with the attempt, because GPU clocks vary.
    """
    time, line = compute_attempt_ns(attempt), attempt.serial_ns or compute_attempt_ns(plan.serial)
    return line / time if time and line else None


def get_times_by_streams(plan: ParallelPlan) -> dict[int, float]:
    """Return the fastest median replay in ns by number of streams, including a single stream."""
    times: dict[int, float] = {}
    for attempt in (plan.serial, *plan.attempts):
        time = compute_attempt_ns(attempt)
        if time is not None and attempt.differs_at is None:
            times[attempt.streams] = min(time, times.get(attempt.streams, time))
    return dict(sorted(times.items()))


def sort_attempts(plan: ParallelPlan) -> list[Attempt]:
    """Return all captures, by streams and then by expected time."""
    return [
        plan.serial,
        *sorted(plan.attempts, key=lambda attempt: (attempt.streams, attempt.predicted_ns)),
    ]


def compute_chain_share(plan: ParallelPlan) -> float | None:
    """Return the longest operator chain as a fraction of the single-stream GPU time.

    A modelled lower bound for any number of streams. None if operators were not timed.
    """
    operations = build_operations(plan.operators, MEASURED_COSTS)
    if not any(operator.device_ns for operator in plan.operators):
        return None
    line_ns = predict_replay_ns(operations, [0] * len(operations), MEASURED_COSTS)
    return compute_time_bounds(operations, MEASURED_COSTS).path_ns / line_ns


def find_larger_plans(plan: ParallelPlan) -> tuple[LargerPlan, ...]:
    """Return plans above the memory limit that beat a single stream, by memory; each is faster than
    those before."""
    least_ns = compute_attempt_ns(plan.serial) or float("inf")
    curve = []
    for candidate in sorted(
        _iterate_larger_plans(plan),
        key=lambda candidate: (candidate.memory_bytes, candidate.time_ns),
    ):
        if candidate.time_ns < least_ns and candidate.speedup > 1:
            curve.append(candidate)
            least_ns = candidate.time_ns
    return tuple(curve)


def _iterate_larger_plans(plan: ParallelPlan) -> Iterator[LargerPlan]:
    for attempt in plan.attempts:
        size = attempt.memory_bytes or attempt.predicted_bytes
        line_ns = attempt.serial_ns or compute_attempt_ns(plan.serial)
        if (
            size is None
            or line_ns is None
            or attempt.differs_at is not None
            or _fits_memory(plan, size)
        ):
            continue
        timed = compute_attempt_ns(attempt)
        time_ns = attempt.predicted_ns if timed is None else timed
        yield LargerPlan(attempt.streams, time_ns, timed is not None, line_ns / time_ns, size)


def _fits_memory(plan: ParallelPlan, size: int) -> bool:
    return plan.memory_limit_bytes is None or size <= plan.memory_limit_bytes


def select_attempt(plan: ParallelPlan) -> Attempt | None:
    """Return the fastest timed attempt on the chosen number of streams within the memory limit;
    None if none was timed."""
    if plan.selected_streams <= 1:
        return plan.serial
    timed = [
        (speedup, attempt)
        for attempt in plan.attempts
        if attempt.streams == plan.selected_streams
        and attempt.differs_at is None
        and _fits_memory(plan, attempt.memory_bytes or 0)
        for speedup in (compute_attempt_speedup(plan, attempt),)
        if speedup is not None
    ]
    return max(timed, key=lambda each: each[0])[1] if timed else None
