"""Comparison of the memory of an experiment's runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.memory.report import (
    MemoryDifference,
    MemoryReport,
    build_memory_report,
    compare_reports,
)
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison, RunComparison


class MemoryComparison(Struct, frozen=True):
    """Memory of an experiment's runs."""

    reports: tuple[MemoryReport, ...]
    differences: tuple[MemoryDifference, ...]
    """Differences of runs with a comparable baseline."""
    missing: Mapping[str, Missing]
    """Reasons for missing reports, by run name."""
    runs: Mapping[str, RunComparison]
    """Compared runs, by name."""

    def __getitem__(self, run: str) -> MemoryReport:
        """Return the report of a run (KeyError if it has none)."""
        return {report.run: report for report in self.reports}[run]

    def get_difference(self, run: str) -> MemoryDifference | None:
        """Return a run's difference from its baseline, or None if not comparable."""
        return {change.run: change for change in self.differences}.get(run)


def compare_memory(comparison: Comparison) -> MemoryComparison:
    """Compare the memory of every run with the same baselines."""
    results = {run.name: build_memory_report(run.run) for run in comparison.runs}
    reports = {name: report for name, report in results.items() if isinstance(report, MemoryReport)}
    differences = tuple(
        compare_reports(reports[run.name], reports[run.baseline])
        for run in comparison.runs
        if run.name in reports and run.baseline in reports and not run.is_other_program
    )
    without = {name: report for name, report in results.items() if isinstance(report, Missing)}
    runs = {run.name: run for run in comparison.runs}
    return MemoryComparison(tuple(reports.values()), differences, without, runs)
