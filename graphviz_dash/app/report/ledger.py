"""Render the ledger sections of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphviz_dash.analysis.ledger.memory import LedgerPart
from graphviz_dash.analysis.ledger.report import LedgerReport, list_ledger_reports
from graphviz_dash.app.report.report_tables import Row, escape_html, format_table
from graphviz_dash.features.ledger.narrative import (
    describe_losses,
    describe_memory,
    describe_process,
    describe_saving,
    describe_startup,
    describe_workspaces,
)
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_bytes, format_ns, format_percent


def generate_ledger_sections(runs: Iterable[Run]) -> Iterator[str]:
    """Generate a section for each run with a ledger."""
    for report in list_ledger_reports(runs):
        yield f"<h2>Memory and start-up: {escape_html(report.run)}</h2>"
        yield f"<p>{escape_html(describe_process(report.process))}</p>"
        if report.memory is not None:
            yield f"<p>{escape_html(describe_memory(report.memory))}</p>"
            yield _format_memory(report)
            for text in (describe_workspaces(report.memory), *describe_losses(report)):
                if text is not None:
                    yield f"<p>{escape_html(text)}</p>"
        yield f"<p>{escape_html(describe_startup(report.startup))}</p>"
        yield _format_startup(report)
        if report.savings:
            yield _format_savings(report)


def _format_memory(report: LedgerReport) -> str:
    moments = report.key_moments
    rows: list[Row] = [
        [part.value, *(format_bytes(moment.parts.get(part, 0)) for _, moment in moments)]
        for part in LedgerPart
        if any(moment.parts.get(part) for _, moment in moments)
    ]
    rows.append(["used (cudaMemGetInfo)", *(format_bytes(moment.used) for _, moment in moments)])
    return format_table(["device memory", *(label for label, _ in moments)], [("", rows)])


def _format_startup(report: LedgerReport) -> str:
    startup = report.startup
    rows: list[Row] = [
        [part.value, format_ns(time), format_percent(time / startup.total_ns)]
        for part, time in startup.parts.items()
    ]
    rows.append(["wall clock", format_ns(startup.total_ns), ""])
    return format_table(["start-up", "time", "share"], [("", rows)])


def _format_savings(report: LedgerReport) -> str:
    rows: list[Row] = [
        [
            describe_saving(saving),
            format_bytes(saving.bytes),
            format_ns(saving.ns),
            saving.basis.value,
        ]
        for saving in report.savings
    ]
    return format_table(["possible saving", "memory", "start-up", "basis"], [("", rows)])
