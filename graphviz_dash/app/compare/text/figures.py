"""Figures as text: one row a metric, a value and a spread for each run, and what goes with them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TypeAlias

import click

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.failures import failure_text, refused, when
from graphviz_dash.analysis.metrics.registry import SECTIONS, Source
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.cli.text.output import cell, plain_table, print_heading, print_table
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.values import shown
from graphviz_dash.guidance.narrative import remedy_texts
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.low_confidence import low_confidence_notes
from graphviz_dash.narrative.numbers import spread_text
from graphviz_dash.narrative.summary import metric_title

Column: TypeAlias = tuple[str, Sequence[Figure]]


def print_figures(columns: Sequence[Column]) -> None:
    """One table, by section of the registry, of the metrics that at least one run has."""
    if all(figure.value is None for _, figures in columns for figure in figures):
        return
    by_run = {name: {figure.metric.id: figure for figure in figures} for name, figures in columns}
    click.echo()
    headings = ["", *(part for name, _ in columns for part in (name, "spread")), "pass"]
    table = plain_table(*headings, right=[1 + 2 * index for index in range(len(columns))])
    for title, metrics in SECTIONS.items():
        shown = [
            metric
            for metric in metrics
            if any(
                metric.id in figures and figures[metric.id].value is not None
                for figures in by_run.values()
            )
        ]
        if not shown:
            continue
        table.add_row(cell(title, "bold"))
        for metric in shown:
            cells = [cell(f"  {metric_title(metric)}")]
            for figures in by_run.values():
                figure = figures[metric.id]
                cells += [cell(figure.text), cell(spread_text(figure), "dim")]
            table.add_row(*cells, cell(_pass(metric.source), "dim"))
        table.add_section()
    print_table(table)
    click.echo()
    click.echo(
        "Spreads are p25 to p75 unless they say 95%, and of how many processes: "
        "docs/reference/metrics.md defines each figure."
    )


def _pass(source: Source) -> str:
    return "traced/clean" if source is Source.BOTH else source.value


def print_failures(runs: Sequence[Run]) -> None:
    """What failed, on a line each."""
    lines = [failure_text(run.name, failure) for run in runs for failure in run.manifest.failures]
    if lines:
        print_heading("Failures")
        for line in lines:
            click.echo(f"  {line}")
    for run in runs:
        if run.doctor is not None and run.manifest.failures:
            click.echo(f"  Why: graphviz-dash doctor --bundle {shlex.quote(shown(run.path))}")


def print_tracebacks(run: Run) -> None:
    """The whole of what failed in one run, line by line; what a collector refused is told whole."""
    for failure in run.manifest.failures:
        if refused(failure):
            continue
        print_heading(f"Traceback of what failed {when(failure)}")
        for line in failure.traceback.splitlines():
            click.echo(printable(f"  {line}").rstrip())


def print_weaknesses(runs: Sequence[RunComparison]) -> None:
    """What makes figures weak, and what to do about it."""
    notes = [(run.name, note) for run in runs for note in low_confidence_notes(run.low_confidence)]
    if not notes:
        return
    print_heading("Low-confidence metrics")
    for name, note in notes:
        click.echo(printable(f"  {name}: {note.sentence}"))


def print_remedies(runs: Sequence[Run], *, whole: bool) -> None:
    """How to get what ``runs`` lack, all of an experiment if it is ``whole``, each with the command
    to run."""
    lines = remedy_texts(runs, whole=whole)
    if lines:
        print_heading("How to get what is missing")
    for line in lines:
        click.echo(f"  {line}")


def print_absent(columns: Sequence[Column]) -> None:
    """Why figures are absent, those with one reason together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, figures in columns:
        missing = [
            (figure.missing.reason, figure.metric.title)
            for figure in figures
            if figure.missing is not None
        ]
        if figures and len(missing) == len(figures):
            reasons[(name, missing[0][0])] = ["every figure"]
            continue
        for reason, title in missing:
            reasons.setdefault((name, reason), []).append(title)
    if not reasons:
        return
    print_heading("Absent")
    for (name, reason), titles in reasons.items():
        click.echo(printable(f"  {name}: {', '.join(titles)}: {reason}"))
