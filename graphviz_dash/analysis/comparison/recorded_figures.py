"""Metrics of a program that ran once, unmodified, under the recorder."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, hypot, log
from typing import Final

from msgspec.structs import replace

from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.analysis.loop.padding import combine_costs
from graphviz_dash.analysis.metrics.program_step import (
    compute_program_step,
    select_statistic,
)
from graphviz_dash.analysis.metrics.recorded_step import (
    StepStatistic,
    compute_recorded_step,
    has_mostly_long_steps,
)
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value, make_value
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run

RELATIVE_RECORDED_METRICS: Final = ("recorded_speedup", "recorded_saving")
"""Metrics of recorded runs that need a baseline."""


def compute_recorded_metrics(run: Run) -> Iterator[MetricValue]:
    """Compute the step time in the program's loop and the number of graph launches."""
    recording, step = run.recording, compute_program_step(run)
    if recording is None:
        assert isinstance(step, Missing)
        for metric in ("recorded_step", "recorded_mean", "recorded_pauses", "recorded_replays"):
            yield make_missing_value(metric, step)
        return
    for statistic in StepStatistic:
        figure = step if isinstance(step, Missing) else step.get_figure(statistic)
        if isinstance(figure, Missing):
            yield make_missing_value(statistic.metric, figure)
        else:
            yield make_value(statistic.metric, figure.ns, figure.spread)
    pauses = compute_recorded_step(recording)
    if isinstance(pauses, Missing):
        yield make_missing_value("recorded_pauses", pauses)
    else:
        yield make_value("recorded_pauses", pauses.pause_ns)
    replays = sum(graph.replays for graph in recording.graphs) + recording.earlier_replays
    yield make_value("recorded_replays", replays)


def compute_relative_recorded_metrics(
    run: Run, baseline: Run | Missing, statistic: StepStatistic | None = None
) -> Iterator[MetricValue]:
    """Compute ``RELATIVE_RECORDED_METRICS``; ``statistic`` is selected for both runs if None."""
    after = compute_program_step(run)
    if isinstance(after, Missing):
        yield from _mark_absent(after)
        return
    if isinstance(baseline, Missing):
        yield from _mark_absent(baseline)
        return
    before = compute_program_step(baseline)
    if isinstance(before, Missing):
        yield from _mark_absent(before.add_owner(f"the baseline {baseline.name}"))
        return
    if statistic is None:
        statistic = select_statistic((run, baseline))
    # A mean that contains waits for requests says nothing about the steps.
    if statistic is StepStatistic.MEAN and any(
        step.is_median and has_mostly_long_steps(side.recording)
        for step, side in ((before, baseline), (after, run))
    ):
        yield from _mark_absent(_UNLIKE_STEPS)
        return
    first, second = before.get_figure(statistic), after.get_figure(statistic)
    if isinstance(first, Missing) or isinstance(second, Missing):
        raise ValueError(f"{statistic} of {run.name} and {baseline.name} is not known")
    intervals = [step.estimate_interval(statistic) for step in (before, after)]
    speedup, saving = _estimate_intervals((first.ns, second.ns), *intervals) or (None, None)
    yield make_value("recorded_speedup", first.ns / second.ns, speedup)
    yield make_value("recorded_saving", first.ns - second.ns, saving)


def _estimate_intervals(
    steps: tuple[float, float], first: Spread | None, second: Spread | None
) -> tuple[Spread, Spread] | None:
    """Estimate 95% intervals of ratio and difference of two ``steps`` from their own intervals.

    By the recovery of variances, for the ratio of the logarithms (Zou and Donner 2008,
    Statistics in Medicine 27, 1693). None if a step has no interval.
    """
    if first is None or second is None or first.high is None or second.high is None:
        return None
    if min(first.low, second.low) <= 0:
        return None
    samples = min(first.samples, second.samples)
    before, after = steps
    ratio, difference = before / after, before - after
    speedup = Spread(
        ratio * exp(-hypot(log(before / first.low), log(second.high / after))),
        ratio * exp(hypot(log(first.high / before), log(after / second.low))),
        SpreadKind.INTERVAL,
        samples,
    )
    saving = Spread(
        difference - hypot(before - first.low, second.high - after),
        difference + hypot(first.high - before, after - second.low),
        SpreadKind.INTERVAL,
        samples,
    )
    return speedup, saving


def _mark_absent(missing: Missing) -> Iterator[MetricValue]:
    return (make_missing_value(metric, missing) for metric in RELATIVE_RECORDED_METRICS)


_UNLIKE_STEPS: Final = Missing(
    Fact.RECORDED_STEP,
    "a few long steps take most of the time of one run, and single steps of the other are unknown",
)


def compute_program_metrics(
    run: Run, baseline: Run | Missing, statistic: StepStatistic
) -> Iterator[MetricValue]:
    """Compute step metrics, relative metrics by ``statistic`` and graph family metrics."""
    yield from compute_recorded_metrics(run)
    yield from compute_relative_recorded_metrics(run, baseline, statistic)
    yield from compute_loop_metrics(run)


_METRICS: Final = ("loop_replay", "loop_padding", "loop_fallbacks", "loop_startup")


def compute_loop_metrics(run: Run) -> Iterator[MetricValue]:
    """Compute replay time, padding cost, fallback share and startup time of all families."""
    report = build_loop_report(run)
    if isinstance(report, Missing):
        yield from (make_missing_value(metric, report) for metric in _METRICS)
        return
    yield _compute_replay(report)
    yield _compute_padding(report)
    replays = sum(family.replays for family in report.families)
    fallbacks = sum(family.fallbacks for family in report.families)
    if replays + fallbacks:
        yield make_value("loop_fallbacks", fallbacks / (replays + fallbacks))
    else:
        yield make_missing_value(
            "loop_fallbacks", Missing(Fact.FAMILIES, "no step of a family was recorded")
        )
    members = [member for family in report.families for member in family.members]
    yield make_value("loop_startup", sum(member.startup_ns for member in members))


def _compute_replay(report: LoopReport) -> MetricValue:
    timed_samples = [
        (member.steps, member.gpu.median)
        for family in report.families
        for member in family.members
        if member.gpu and member.steps
    ]
    if not timed_samples:
        return make_missing_value(
            "loop_replay", Missing(Fact.FAMILIES, "no replay was timed on the GPU")
        )
    steps = sum(count for count, _ in timed_samples)
    mean_ns = sum(count * median for count, median in timed_samples) / steps
    return make_value("loop_replay", report.scale_to_recorded_step(mean_ns))


def _compute_padding(report: LoopReport) -> MetricValue:
    costs = [f.padding for f in report.families if not isinstance(f.padding, Missing)]
    if not costs:
        reasons = [f.padding.reason for f in report.families if isinstance(f.padding, Missing)]
        return make_missing_value("loop_padding", Missing(Fact.FAMILIES, reasons[0]))
    cost = combine_costs(costs)
    scale = report.scale_to_recorded_step
    high = None if cost.spread.high is None else scale(cost.spread.high)
    spread = replace(cost.spread, low=scale(cost.spread.low), high=high)
    return make_value("loop_padding", scale(cost.step_ns), spread)
