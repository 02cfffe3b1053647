"""The memory of the runs of an experiment against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphviz_dash.analysis.memory.report import (
    MemoryDifference,
    MemoryReport,
    memory_difference,
    memory_report,
)
from graphviz_dash.errors import printable
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_bytes, format_signed_bytes, format_signed_percent

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison


@dataclass(frozen=True)
class MemoryComparison:
    """The memory of an experiment's runs. ``without``: why a run has none."""

    reports: tuple[MemoryReport, ...]
    differences: tuple[MemoryDifference, ...]
    without: Mapping[str, str]
    sentence: str

    def __getitem__(self, run: str) -> MemoryReport:
        """The report of a run (KeyError if it has none)."""
        return {report.run: report for report in self.reports}[run]

    def difference(self, run: str) -> MemoryDifference | None:
        """The run against its baseline; None where it cannot be compared."""
        return {one.run: one for one in self.differences}.get(run)


def compare_memory(comparison: Comparison) -> MemoryComparison:
    """The memory of every run of ``comparison``, against the same baselines."""
    found = {run.name: memory_report(run.run) for run in comparison.runs}
    reports = {name: one for name, one in found.items() if isinstance(one, MemoryReport)}
    differences = tuple(
        memory_difference(reports[run.name], reports[run.baseline])
        for run in comparison.runs
        if run.name in reports and run.baseline in reports
    )
    without = {name: one.reason for name, one in found.items() if isinstance(one, Missing)}
    return MemoryComparison(
        tuple(reports.values()),
        differences,
        without,
        _sentence(tuple(reports.values()), differences),
    )


def _sentence(reports: tuple[MemoryReport, ...], differences: tuple[MemoryDifference, ...]) -> str:
    """What graphs cost in memory, in words; printable."""
    if not reports:
        return "No run has a memory pass"
    by_name = {report.run: report for report in reports}
    baselines = list(dict.fromkeys(one.baseline for one in differences))
    taken = [_taken(by_name[name]) for name in baselines or by_name]
    if not differences:
        return "; ".join(taken)
    if len(baselines) == 1:
        costs = [f"{printable(one.run)} {_cost(one)}" for one in differences]
        return f"{taken[0]}; against it {', '.join(costs)}"
    costs = [
        f"{printable(one.run)} {_cost(one)} against {printable(one.baseline)}"
        for one in differences
    ]
    return f"{', '.join(taken)}; {', '.join(costs)}"


def _taken(report: MemoryReport) -> str:
    if report.alone:
        return f"{printable(report.run)} takes {format_bytes(report.total)} of device memory"
    return f"{printable(report.run)} reserves {format_bytes(report.reserved)}"


def _cost(one: MemoryDifference) -> str:
    share = (
        f" (its activations {format_signed_percent(one.activation_overhead)})"
        if not isinstance(one.activation_overhead, Missing)
        else ""
    )
    return f"{format_signed_bytes(one.own)}{share}"
