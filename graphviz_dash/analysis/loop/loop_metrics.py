"""Metrics of a recorded program's graph families."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.analysis.loop.padding import combine_costs
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value, make_value
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

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
    timed = [
        (member.steps, member.gpu.median)
        for family in report.families
        for member in family.members
        if member.gpu and member.steps
    ]
    if not timed:
        return make_missing_value(
            "loop_replay", Missing(Fact.FAMILIES, "no replay was timed on the GPU")
        )
    steps = sum(count for count, _ in timed)
    return make_value("loop_replay", sum(count * median for count, median in timed) / steps)


def _compute_padding(report: LoopReport) -> MetricValue:
    costs = [f.padding for f in report.families if not isinstance(f.padding, Missing)]
    if not costs:
        reasons = [f.padding.reason for f in report.families if isinstance(f.padding, Missing)]
        return make_missing_value("loop_padding", Missing(Fact.FAMILIES, reasons[0]))
    cost = combine_costs(costs)
    return make_value("loop_padding", cost.step_ns, cost.spread)
