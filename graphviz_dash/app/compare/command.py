"""``graphviz-dash compare``: the figures of an experiment's runs side by side."""

from __future__ import annotations

import click

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.metrics.kernel_table import kernel_table
from graphviz_dash.analysis.ranks.ranks import rank_comparison
from graphviz_dash.app.compare.documents.comparison import comparison_document
from graphviz_dash.app.compare.text.comparison import print_comparison
from graphviz_dash.cli.loading import executor_options, experiment_at, loaded_experiment
from graphviz_dash.cli.text.output import (
    print_json,
)


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
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
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
    measured in, where the time went vs the baseline, low-confidence metrics, what is absent
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
        print_comparison(result, kernels, ranks, (count, parts))
