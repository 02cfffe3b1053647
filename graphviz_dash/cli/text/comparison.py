"""A comparison on the terminal: outcome, figures, ranks, equation, break-even and kernels."""

from __future__ import annotations

import click

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.doctor import diagnose
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.cli.text.equation import print_waterfalls
from graphviz_dash.cli.text.figures import (
    print_absent,
    print_failures,
    print_figures,
    print_weaknesses,
)
from graphviz_dash.cli.text.kernels import print_kernels
from graphviz_dash.cli.text.output import (
    cell,
    plain_table,
    print_heading,
    print_table,
)
from graphviz_dash.cli.text.ranks import print_ranks
from graphviz_dash.errors import printable
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import answer, answer_text
from graphviz_dash.narrative.break_even import break_even_text
from graphviz_dash.narrative.headline import headline
from graphviz_dash.narrative.prediction import scored_text
from graphviz_dash.narrative.summary import break_even_title, provenance
from graphviz_dash.units import format_count, format_ns, format_percent


def print_comparison(
    result: Comparison,
    kernels: KernelTable,
    ranks: tuple[ModeRanks, ...],
    most: tuple[int, int],
) -> None:
    """``most``: kernels, and modules and operators, to list."""
    count, parts = most
    click.echo(headline(result))
    if pieces := answer(result):
        click.echo(answer_text(pieces))
    for name, report in result.examinations:
        click.echo(printable(f"{name}: {diagnose(report).verdict}"))
    for text in provenance(result):
        click.echo(printable(text))
    print_figures([(run.name, run.figures) for run in result.runs])
    print_ranks(ranks)
    print_waterfalls(result.runs, result.best, parts)
    _print_break_even(result.best)
    _print_predictions(result)
    print_failures([run.run for run in result.runs])
    print_weaknesses(result.runs)
    if count:
        print_kernels(kernels, count)
    _print_coverage(result)
    print_absent([(run.name, run.figures) for run in result.runs])


def _print_break_even(run: RunComparison | None) -> None:
    if run is None or isinstance(run.break_even, Missing):
        return
    print_heading(break_even_title(run))
    click.echo(f"  {break_even_text(run.break_even)}")
    click.echo()
    table = plain_table("replays", "saved", "95% from", "to", right=range(4))
    for count in run.break_even.powers():
        low, middle, high = run.break_even.saved(count)
        table.add_row(
            cell(format_count(count)),
            *(cell(format_ns(value)) for value in (middle, low, high)),
        )
    print_table(table)


def _print_predictions(result: Comparison) -> None:
    for run in result.runs:
        if not isinstance(run.prediction, Missing):
            print_heading(f"{run.name}, as predicted")
            click.echo(f"  {scored_text(run.prediction, run['step_time'].value)}")


def _print_coverage(result: Comparison) -> None:
    rows = [
        (run.name, group)
        for run in result.runs
        if not isinstance(run.coverage, Missing)
        for group in run.coverage.eager
    ]
    if not rows:
        return
    print_heading("Not captured, per traced step")
    table = plain_table("run", "operator", "why", "work", "time", "of GPU time", right=(3, 4, 5))
    for run, group in rows:
        table.add_row(
            cell(run),
            cell(group.operator or "–"),
            cell(group.reason.value),
            cell(format_count(group.count)),
            cell(format_ns(group.total_ns)),
            cell(format_percent(group.share)),
        )
    print_table(table)
