"""Comparison on the terminal: outcome, figures, ranks, equation, break-even and kernels."""

from __future__ import annotations

import click

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.app.compare.text.break_even import print_break_even
from graphviz_dash.app.compare.text.coverage import print_not_captured
from graphviz_dash.app.compare.text.equation import print_waterfalls
from graphviz_dash.app.compare.text.figures import (
    print_absent,
    print_failures,
    print_figures,
    print_remedies,
    print_weaknesses,
)
from graphviz_dash.app.compare.text.kernels import print_kernels
from graphviz_dash.errors import printable
from graphviz_dash.features.prediction.text import print_blockers_of, print_scored_predictions
from graphviz_dash.features.ranks.text import print_ranks
from graphviz_dash.narrative.answer import answer, answer_text
from graphviz_dash.narrative.doctor import report_verdict
from graphviz_dash.narrative.headline import headline
from graphviz_dash.narrative.summary import provenance


def print_comparison(
    result: Comparison,
    kernels: KernelTable,
    ranks: tuple[ModeRanks, ...],
    most: tuple[int, int],
) -> None:
    """Print a comparison. ``most``: maximum number of kernels, and of modules and operators."""
    count, parts = most
    click.echo(headline(result))
    if pieces := answer(result):
        click.echo(answer_text(pieces))
    for name, report in result.examinations:
        click.echo(printable(f"{name}: {report_verdict(report)}"))
    for text in provenance(result):
        click.echo(printable(text))
    print_figures([(run.name, run.figures) for run in result.runs])
    print_ranks(ranks)
    print_waterfalls(result.runs, result.best, parts)
    print_break_even(result.best)
    print_scored_predictions(result)
    print_blockers_of(result)
    print_failures([run.run for run in result.runs])
    print_weaknesses(result.runs)
    if count:
        print_kernels(kernels, count)
    print_not_captured(result)
    print_absent([(run.name, run.figures) for run in result.runs])
    print_remedies([run.run for run in result.runs], whole=True)
