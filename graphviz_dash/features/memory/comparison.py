"""The memory of the runs of an experiment against each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.memory.report import (
    MemoryDifference,
    MemoryReport,
    memory_difference,
    memory_report,
)
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison


class MemoryComparison(Struct, frozen=True):
    """The memory of an experiment's runs."""

    reports: tuple[MemoryReport, ...]
    """Of the runs that have one."""
    differences: tuple[MemoryDifference, ...]
    """Of the runs that can be compared with their baseline."""
    without: Mapping[str, Missing]
    """Why the others have no report, by name."""

    def __getitem__(self, run: str) -> MemoryReport:
        """The report of a run (KeyError if it has none)."""
        return {report.run: report for report in self.reports}[run]

    def difference(self, run: str) -> MemoryDifference | None:
        """The run against its baseline; None where it cannot be compared."""
        return {change.run: change for change in self.differences}.get(run)


def compare_memory(comparison: Comparison) -> MemoryComparison:
    """The memory of every run of ``comparison``, against the same baselines."""
    results = {run.name: memory_report(run.run) for run in comparison.runs}
    reports = {name: report for name, report in results.items() if isinstance(report, MemoryReport)}
    differences = tuple(
        memory_difference(reports[run.name], reports[run.baseline])
        for run in comparison.runs
        if run.name in reports and run.baseline in reports
    )
    without = {name: report for name, report in results.items() if isinstance(report, Missing)}
    return MemoryComparison(tuple(reports.values()), differences, without)
