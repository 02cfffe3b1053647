"""``graphviz-dash compare``: the figures of an experiment's runs side by side."""

from __future__ import annotations

from typing import Final

import click

from graphviz_dash.analysis.comparison.break_even import pays_text
from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable, kernel_table
from graphviz_dash.analysis.ranks.ranks import ModeRanks, rank_comparison
from graphviz_dash.cli.loading import executor_options, experiment_at, loaded_experiment
from graphviz_dash.cli.text.equation import print_waterfalls
from graphviz_dash.cli.text.figures import (
    print_absent,
    print_failures,
    print_figures,
    print_weaknesses,
)
from graphviz_dash.cli.text.output import (
    cell,
    plain_table,
    print_heading,
    print_json,
    print_table,
    shorten,
)
from graphviz_dash.cli.text.ranks import print_ranks
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.comparison import comparison_document
from graphviz_dash.model.run import Manifest
from graphviz_dash.narrative.answer import answer_text
from graphviz_dash.narrative.prediction import scored_text
from graphviz_dash.units import format_count, format_ns, format_percent

_NAME_LENGTH: Final = 72


@click.command("compare")
@click.argument("experiment")
@click.option(
    "--baseline",
    metavar="MODE",
    help="Mode or run that the others are compared with.  [default: eager]",
)
@click.option(
    "--kernels",
    "count",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="Kernels to list, those that changed most first; 0 for none.",
)
@click.option(
    "--parts",
    default=5,
    show_default=True,
    type=click.IntRange(0),
    help="Modules and operators of the fastest run to list, largest difference first; 0 for none.",
)
@executor_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document (docs/cli.md).")
def compare_command(
    experiment: str,
    baseline: str | None,
    count: int,
    parts: int,
    scheduler: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Compare the runs of an EXPERIMENT, a folder that holds a run bundle for each mode.

    It may be an address (s3://bucket/experiment), or a folder of traces that are imported first.

    Prints whether the fastest run is worth it, every figure with its spread and the pass it was
    measured in, where the difference to the baseline went, what makes figures weak, what is absent
    and why, and the kernels that changed most.
    """
    with experiment_at(experiment, scheduler, workers) as folder:
        loaded = loaded_experiment(folder)
        result = compare(loaded, baseline)
        kernels = kernel_table(loaded, result.baseline)
        ranks = rank_comparison(loaded)
        if as_json:
            print_json("compare", comparison_document(result, kernels, ranks))
            return
        _print(result, kernels, ranks, (count, parts))


def _print(
    result: Comparison,
    kernels: KernelTable,
    ranks: tuple[ModeRanks, ...],
    most: tuple[int, int],
) -> None:
    """``most``: kernels, and modules and operators, to list."""
    count, parts = most
    click.echo(result.headline)
    if result.answer:
        click.echo(answer_text(result.answer))
    for name, verdict in result.verdicts:
        click.echo(printable(f"{name}: {verdict}"))
    for text in dict.fromkeys(_where_made(run.run.manifest) for run in result.runs):
        click.echo(printable(text))
    print_figures([(run.name, run.figures) for run in result.runs])
    print_ranks(ranks)
    print_waterfalls(result.runs, result.best, parts)
    _print_break_even(result.best)
    _print_predictions(result)
    print_failures([run.run for run in result.runs])
    print_weaknesses(result.runs)
    if count:
        _print_kernels(kernels, count)
    _print_coverage(result)
    print_absent([(run.name, run.figures) for run in result.runs])


def _where_made(manifest: Manifest) -> str:
    machine = manifest.environment
    return (
        f"{manifest.workload.name} on {machine.gpu_name}, driver {machine.driver or 'unknown'}, "
        f"CUDA {machine.cuda_runtime or 'unknown'}, torch {machine.torch or 'unknown'}, "
        f"{manifest.created[:10]}"
    )


def _print_break_even(run: RunComparison | None) -> None:
    if run is None or run.pays is None:
        return
    print_heading(f"When {run.name} has paid for itself")
    click.echo(f"  {pays_text(run.pays)}")
    click.echo()
    table = plain_table("replays", "saved", "95% from", "to", right=range(4))
    for count in run.pays.powers():
        low, middle, high = run.pays.saved(count)
        table.add_row(
            cell(format_count(count)),
            *(cell(format_ns(value)) for value in (middle, low, high)),
        )
    print_table(table)


def _print_predictions(result: Comparison) -> None:
    for run in result.runs:
        if run.prediction is not None:
            print_heading(f"{run.name}, as predicted")
            click.echo(f"  {scored_text(run.prediction, run['step_time'].value)}")


def _print_coverage(result: Comparison) -> None:
    rows = [
        (run.name, group)
        for run in result.runs
        if run.coverage is not None
        for group in run.coverage.eager
    ]
    if not rows:
        return
    print_heading("Stayed eager, per traced step")
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


def _print_kernels(kernels: KernelTable, count: int) -> None:
    shown = kernels.rows[:count]
    if not shown:
        return
    print_heading(
        f"Kernels per traced step, {len(shown)} of {len(kernels.rows)}, largest change first"
    )
    headings = ["kernel", "category"]
    for place, run in enumerate(kernels.runs):
        headings += [f"{run}: count", "time"]
        if kernels.changes(place):
            headings.append("change")
    table = plain_table(*headings, right=range(2, len(headings)))
    for row in shown:
        cells = [cell(shorten(row.name, _NAME_LENGTH)), cell(row.category.value)]
        for place, (use, change) in enumerate(zip(row.uses, row.changes, strict=True)):
            cells.append(cell(format_count(use.count if use else None)))
            cells.append(cell(format_ns(use.total_ns if use else None)))
            if kernels.changes(place):
                sign = "+" if change is not None and change > 0 else ""
                cells.append(cell(sign + format_ns(change)))
        table.add_row(*cells)
    print_table(table)
