"""Figures as text: one row per metric, with value and spread of each run, and related notes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TypeAlias

import click

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.failures import format_failed_stage, format_failure, is_refusal
from graphviz_dash.analysis.metrics.registry import SECTIONS, Source
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_heading,
    print_table,
    print_text,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.exports.documents.values import display_path
from graphviz_dash.guidance.narrative import list_remedies
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from graphviz_dash.narrative.numbers import format_spread
from graphviz_dash.narrative.summary import MAIN_METRICS, format_metric_title

Column: TypeAlias = tuple[str, Sequence[MetricValue]]


def print_figures(columns: Sequence[Column], *, brief: bool = False) -> None:
    """Print one table of the metrics that any run has; ``brief`` prints only the main ones, if
    any."""
    available = {
        figure.metric.id for _, figures in columns for figure in figures if figure.value is not None
    }
    if not available:
        return
    if brief:
        available = available.intersection(MAIN_METRICS) or available
    by_run = {name: {figure.metric.id: figure for figure in figures} for name, figures in columns}
    click.echo()
    headings = ["", *(part for name, _ in columns for part in (name, "spread")), "pass"]
    table = create_table(*headings, right=[1 + 2 * index for index in range(len(columns))])
    for title, metrics in SECTIONS.items():
        rows = [metric for metric in metrics if metric.id in available]
        if not rows:
            continue
        table.add_row(build_cell(title, "bold"))
        for metric in rows:
            cells: list[object] = [f"  {format_metric_title(metric)}"]
            for figures in by_run.values():
                figure = figures[metric.id]
                cells += [figure.text, build_cell(format_spread(figure), "dim")]
            table.add_row(*cells, build_cell(_format_pass(metric.source), "dim"))
        table.add_section()
    print_table(table)
    if brief:
        return
    click.echo()
    click.echo(
        "Spreads are p25 to p75 unless marked 95% with a number of processes. "
        "docs/reference/metrics.md defines each figure."
    )


def _format_pass(source: Source) -> str:
    return "traced/clean" if source is Source.BOTH else source.value


def print_failures(runs: Sequence[Run]) -> None:
    """Print the failures, one line each."""
    lines = [format_failure(run.name, failure) for run in runs for failure in run.manifest.failures]
    if lines:
        print_heading("Failures")
        for line in lines:
            click.echo(f"  {line}")
    for run in runs:
        if run.doctor is not None and run.manifest.failures:
            click.echo(
                "  To diagnose: graphviz-dash doctor --bundle "
                f"{shlex.quote(display_path(run.path))}"
            )


def print_tracebacks(run: Run) -> None:
    """Print the full tracebacks of one run, except refusals, which are already complete."""
    for failure in run.manifest.failures:
        if is_refusal(failure):
            continue
        print_heading(f"Traceback of the failure {format_failed_stage(failure)}")
        for line in failure.traceback.splitlines():
            click.echo(escape_control_characters(f"  {line}").rstrip())


def print_caveats(runs: Sequence[RunComparison]) -> None:
    """Print caveats of the figures, with advice."""
    notes = [
        (run.name, note) for run in runs for note in describe_low_confidence(run.low_confidence)
    ]
    if not notes:
        return
    print_heading("Low-confidence metrics")
    for name, note in notes:
        print_text(f"  {name}: {note.sentence}")


def print_remedies(runs: Sequence[Run], *, with_baseline: bool) -> None:
    """Print how to collect missing data of ``runs``, with commands."""
    lines = list_remedies(runs, with_baseline=with_baseline)
    if lines:
        print_heading("Collect missing data")
    for line in lines:
        click.echo(f"  {line}")


def print_missing(columns: Sequence[Column]) -> None:
    """Print why figures are missing, grouped by reason."""
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
    print_heading("Missing data")
    for (name, reason), titles in reasons.items():
        print_text(f"  {name}: {', '.join(titles)}: {reason}")
