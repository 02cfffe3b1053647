"""Comparison on the terminal: outcome, figures, ranks, equation, break-even and kernels."""

from __future__ import annotations

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
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.prediction.text import (
    print_predicted_blockers,
    print_scored_predictions,
)
from graphviz_dash.features.ranks.text import print_ranks
from graphviz_dash.narrative.answer import build_answer, format_answer
from graphviz_dash.narrative.doctor import format_report_verdict
from graphviz_dash.narrative.headline import build_headline
from graphviz_dash.narrative.summary import list_provenance


def print_comparison(
    result: Comparison,
    kernels: KernelTable,
    ranks: tuple[ModeRanks, ...],
    limits: tuple[int, int],
) -> None:
    """Print a comparison. ``most``: maximum number of kernels, and of modules and operators."""
    count, parts = limits
    click.echo(build_headline(result))
    if pieces := build_answer(result):
        click.echo(format_answer(pieces))
    for name, report in result.examinations:
        click.echo(escape_control_characters(f"{name}: {format_report_verdict(report)}"))
    for text in list_provenance(result):
        click.echo(escape_control_characters(text))
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
