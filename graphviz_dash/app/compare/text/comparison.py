"""Comparison on the terminal: outcome, figures, ranks, equation, break-even and kernels."""

from __future__ import annotations

from typing import Final

import click

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.app.compare.text.break_even import print_break_even
from graphviz_dash.app.compare.text.coverage import print_uncaptured_work
from graphviz_dash.app.compare.text.equation import print_waterfalls
from graphviz_dash.app.compare.text.figures import (
    print_caveats,
    print_failures,
    print_figures,
    print_missing,
    print_remedies,
)
from graphviz_dash.app.compare.text.kernels import print_kernels
from graphviz_dash.cli.text.output import build_cell, create_table, print_more, print_table
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.prediction.text import (
    print_predicted_blockers,
    print_scored_predictions,
)
from graphviz_dash.features.ranks.text import print_ranks
from graphviz_dash.narrative.answer import build_answer, format_answer
from graphviz_dash.narrative.doctor import list_verdicts
from graphviz_dash.narrative.headline import build_headline
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from graphviz_dash.narrative.memory_change import format_change
from graphviz_dash.narrative.summary import list_provenance
from graphviz_dash.units import pluralize


def print_comparison_summary(result: Comparison) -> None:
    """Print the answer, the main metrics of each run, failures and the number of caveats."""
    _print_answer(result)
    columns = [
        metric
        for metric in _SUMMARY_COLUMNS
        if any(run[metric].value is not None for run in result.runs)
        and (metric != "traced_step_time" or all(run.step.value is None for run in result.runs))
    ]
    click.echo()
    headings = [_SUMMARY_COLUMNS[metric] for metric in columns]
    table = create_table("run", *headings, right=range(1, len(columns) + 1))
    ordered_runs = sorted(
        result.runs, key=lambda run: (not run.is_baseline, run is not result.best)
    )
    for run in ordered_runs[:_MAX_SUMMARY_RUNS]:
        cells = [
            format_change(run[metric]) if metric.endswith("_change") else run[metric].text
            for metric in columns
        ]
        table.add_row(build_cell(run.name), *map(build_cell, cells))
    print_table(table)
    print_more(len(ordered_runs), _MAX_SUMMARY_RUNS)
    print_failures([run.run for run in result.runs])
    print_predicted_blockers(result)
    notes = {
        note.code for run in result.runs for note in describe_low_confidence(run.low_confidence)
    }
    if notes:
        click.echo()
        click.echo(f"Low-confidence metrics: {pluralize(len(notes), 'cause')}")


_SUMMARY_COLUMNS: Final = {
    "step_time": "step",
    "recorded_step": "step",
    "traced_step_time": "profiled",
    "speedup": "speedup",
    "recorded_speedup": "speedup",
    "launches": "launches",
    "graph_time_share": "in graphs",
    "peak_reserved_change": "peak mem.",
    "device_memory_change": "steady mem.",
}
"""Heading by metric of the summary."""
_MAX_SUMMARY_RUNS: Final = 12


def _print_answer(result: Comparison) -> None:
    answer = build_answer(result)
    click.echo(build_headline(result) if answer is None else format_answer(answer))
    for name, verdict in list_verdicts(result):
        click.echo(escape_control_characters(f"{name}: {verdict}"))
    for text in list_provenance(result):
        click.echo(escape_control_characters(text))


def print_comparison(
    result: Comparison,
    kernels: KernelTable,
    ranks: tuple[ModeRanks, ...],
    limits: tuple[int, int],
) -> None:
    """Print a comparison. ``most``: maximum number of kernels, and of modules and operators."""
    count, parts = limits
    _print_answer(result)
    print_figures([(run.name, run.metrics) for run in result.runs])
    print_ranks(ranks)
    print_waterfalls(result.runs, result.best, parts)
    print_break_even(result.best)
    print_scored_predictions(result)
    print_predicted_blockers(result)
    print_failures([run.run for run in result.runs])
    print_caveats(result.runs)
    if count:
        print_kernels(kernels, count)
    print_uncaptured_work(result)
    print_missing([(run.name, run.metrics) for run in result.runs])
    print_remedies([run.run for run in result.runs], with_baseline=True)
