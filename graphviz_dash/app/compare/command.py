"""``graphviz-dash compare``: figures of an experiment's runs side by side."""

from __future__ import annotations

import click

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.ranks.ranks import compare_ranks
from graphviz_dash.app.compare.documents.comparison import build_comparison_document
from graphviz_dash.app.compare.text.comparison import print_comparison, print_comparison_summary
from graphviz_dash.cli.loading import add_executor_options, open_experiment, resolve_experiment
from graphviz_dash.cli.options import BASELINE_OPTION, JSON_OPTION, add_count_option
from graphviz_dash.cli.text.brief import add_all_option, limit_output
from graphviz_dash.cli.text.output import (
    print_json,
)


@click.command("compare")
@click.argument("experiment")
@BASELINE_OPTION
@add_count_option("--kernels", 10, "kernels that --all lists, largest change first")
@add_count_option(
    "--parts", 5, "modules and operators of the fastest run that --all lists", "parts"
)
@add_executor_options
@add_all_option
@JSON_OPTION
def compare_command(
    experiment: str,
    baseline: str | None,
    count: int,
    parts: int,
    scheduler: str | None,
    workers: int | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Compare the runs of an EXPERIMENT, a folder with one run bundle per mode.

    EXPERIMENT may also be an address (s3://bucket/experiment) or a folder of traces, which are
    imported first.

    Prints whether graphs pay off, the cause, the costs, the next step and the main figures of each
    run. With --all also every figure with its spread and pass, the step time breakdown,
    low-confidence metrics, missing figures with reasons, and the kernels with the largest changes.
    """
    with resolve_experiment(experiment, scheduler, workers) as folder:
        loaded = open_experiment(folder)
        result = compare_runs(loaded, baseline)
        if not (everything or as_json):
            with limit_output(everything=False):
                print_comparison_summary(result)
            return
        kernels = build_kernel_table(loaded, result.baseline)
        ranks = compare_ranks(loaded)
        if as_json:
            print_json("compare", build_comparison_document(result, kernels, ranks))
            return
        print_comparison(result, kernels, ranks, (count, parts))
