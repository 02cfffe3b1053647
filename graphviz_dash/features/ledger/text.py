"""The ledger on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from graphviz_dash.analysis.ledger.fit import FitPrediction
from graphviz_dash.analysis.ledger.memory import MemoryLedger
from graphviz_dash.analysis.ledger.report import LedgerReport
from graphviz_dash.analysis.ledger.savings import Saving
from graphviz_dash.analysis.ledger.startup import StartupLedger
from graphviz_dash.cli.text.output import (
    create_table,
    print_heading,
    print_more,
    print_rows,
    print_sections,
    print_table,
)
from graphviz_dash.features.ledger.narrative import (
    GRAPH_COLUMNS,
    GROWTH_COLUMNS,
    SAVING_COLUMNS,
    TIME_COLUMNS,
    build_size_columns,
    describe_fit,
    describe_losses,
    describe_memory,
    describe_process,
    describe_startup,
    describe_workspaces,
    list_fit_rows,
    list_growths,
    list_size_rows,
    list_time_rows,
)
from graphviz_dash.narrative.columns import omit_empty_columns
from graphviz_dash.units import format_bytes, format_ns

_REMEDY: Final = "--graphs sets the number"


def print_ledgers(
    reports: Sequence[tuple[LedgerReport, FitPrediction | None]], count: int, *, has_change: bool
) -> None:
    """Print each ledger with its prediction for another configuration if there is a change."""
    if not reports:
        click.echo("No ledger: record the experiment again with this version of graphviz-dash.")
    if len(reports) > 1:
        _print_processes([report for report, _ in reports])
    for report, fit in reports:
        print_ledger(report, count)
        if fit is not None:
            _print_fit(report, fit)
        elif has_change:
            print_heading("Other configuration")
            click.echo(
                "No prediction: the recording lacks the layers, sizes or dimensions to change."
            )


def _print_processes(reports: Sequence[LedgerReport]) -> None:
    print_heading("Processes after start-up")
    table = create_table("run", "process", "memory", "start-up", right=[2, 3])
    for report in reports:
        memory = None if report.memory is None else report.memory.own_bytes
        table.add_row(
            report.run,
            describe_process(report.process),
            format_bytes(memory),
            format_ns(report.startup.total_ns),
        )
    print_table(table)


def print_ledger(report: LedgerReport, count: int) -> None:
    """Print memory, start-up, ``count`` graphs and possible savings of one run."""
    print_heading(f"{report.run}: device memory")
    click.echo(describe_process(report.process))
    if report.memory is None:
        click.echo("No samples: the process created no CUDA context.")
    else:
        _print_memory(report)
        _print_growths(report.memory, count)
    if report.graphs and count:
        _print_graphs(report, count)
    _print_startup(report.startup)
    if report.savings:
        _print_savings(report.savings)


def _print_memory(report: LedgerReport) -> None:
    assert report.memory is not None
    click.echo(describe_memory(report.memory))
    click.echo()
    columns = build_size_columns(label for label, _ in report.key_moments)
    print_sections(columns, list_size_rows(report))
    for text in (describe_workspaces(report.memory), *describe_losses(report)):
        if text is not None:
            click.echo(text)


def _print_growths(ledger: MemoryLedger, count: int) -> None:
    rows = list_growths(ledger)
    if not rows or not count:
        return
    print_heading("Growth outside the allocator")
    print_rows(GROWTH_COLUMNS, rows[:count])
    print_more(len(rows), min(count, len(rows)), _REMEDY)


def _print_graphs(report: LedgerReport, count: int) -> None:
    print_heading("Graphs, largest first")
    largest = report.largest_graphs[:count]
    print_rows(omit_empty_columns(GRAPH_COLUMNS, largest), largest)
    print_more(len(report.graphs), len(largest), _REMEDY)


def _print_startup(startup: StartupLedger) -> None:
    print_heading("Start-up")
    click.echo(describe_startup(startup))
    click.echo()
    print_sections(TIME_COLUMNS, list_time_rows(startup))


def _print_fit(report: LedgerReport, fit: FitPrediction) -> None:
    print_heading("Other configuration")
    click.echo(describe_fit(fit))
    click.echo()
    print_rows(build_size_columns(("recorded", "predicted")), list_fit_rows(report, fit))


def _print_savings(savings: tuple[Saving, ...]) -> None:
    print_heading("Possible savings")
    print_rows(SAVING_COLUMNS, savings, spare=[0])
