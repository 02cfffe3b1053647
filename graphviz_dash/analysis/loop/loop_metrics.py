"""Metrics of a recorded program's graph families."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.loop.family_report import LoopReport, loop_report
from graphviz_dash.analysis.loop.padding import together
from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, present
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

_METRICS: Final = ("loop_replay", "loop_padding", "loop_fallbacks", "loop_startup")


def loop_figures(run: Run) -> Iterator[Figure]:
    """Compute replay time, padding cost, fallback share and startup time of all families."""
    report = loop_report(run)
    if isinstance(report, Missing):
        yield from (absent(metric, report) for metric in _METRICS)
        return
    yield _replay(report)
    yield _padding(report)
    replays = sum(family.replays for family in report.families)
    fallbacks = sum(family.fallbacks for family in report.families)
    if replays + fallbacks:
        yield present("loop_fallbacks", fallbacks / (replays + fallbacks))
    else:
        yield absent("loop_fallbacks", Missing(Fact.FAMILIES, "no step of a family was recorded"))
    members = [member for family in report.families for member in family.members]
    yield present("loop_startup", sum(member.startup_ns for member in members))


def _replay(report: LoopReport) -> Figure:
    timed = [
        (member.steps, member.gpu.median)
        for family in report.families
        for member in family.members
        if member.gpu and member.steps
    ]
    if not timed:
        return absent("loop_replay", Missing(Fact.FAMILIES, "no replay was timed on the GPU"))
    steps = sum(count for count, _ in timed)
    return present("loop_replay", sum(count * median for count, median in timed) / steps)


def _padding(report: LoopReport) -> Figure:
    costs = [f.padding for f in report.families if not isinstance(f.padding, Missing)]
    if not costs:
        reasons = [f.padding.reason for f in report.families if isinstance(f.padding, Missing)]
        return absent("loop_padding", Missing(Fact.FAMILIES, reasons[0]))
    cost = together(costs)
    return present("loop_padding", cost.step_ns, cost.spread)
