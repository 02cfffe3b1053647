"""``graphviz-dash show``: full report of one run."""

from __future__ import annotations

import os
from pathlib import Path

import click

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.recorded_figures import RELATIVE_RECORDED_METRICS
from graphviz_dash.analysis.comparison.relative_metrics import (
    COMPILE_METRICS,
    PREDICTED_METRICS,
    RELATIVE_METRICS,
    WATERFALL_METRICS,
)
from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.memory.report import RELATIVE_MEMORY_METRICS
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.analysis.nodes.concurrency import analyze_run
from graphviz_dash.analysis.nodes.node_table import build_tables
from graphviz_dash.app.compare.documents.run import build_run_document
from graphviz_dash.app.compare.text.run import print_run, print_run_summary
from graphviz_dash.cli.loading import open_run
from graphviz_dash.cli.options import JSON_OPTION, add_count_option
from graphviz_dash.cli.text.brief import add_all_option, limit_output
from graphviz_dash.cli.text.output import (
    print_json,
)
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    find_step_operators,
    predict_run_parallel,
)
from graphviz_dash.ingest.load import load_sibling_plans
from graphviz_dash.model.run import Experiment


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@add_count_option("--nodes", 10, "nodes that --all lists per graph, longest first")
@add_all_option
@JSON_OPTION
def show(run: Path, count: int, everything: bool, as_json: bool) -> None:
    """Show a RUN: its main figures and graphs; with --all every figure, the environment, graphs
    with their longest nodes, and missing data.

    RUN is the folder of one run bundle. For a speedup, run compare on its experiment.
    """
    # Absolute, so that "." has a name.
    loaded = open_run(Path(os.path.abspath(run)))
    result = compare_runs(Experiment(loaded.path.parent, (loaded,))).runs[0]
    tables = list(build_tables(loaded).values())
    figures = _select_standalone_figures(result)
    if not (everything or as_json):
        with limit_output(everything=False):
            print_run_summary(result, figures, tables)
        return
    measured = analyze_run(loaded, tables)
    operators = find_step_operators(loaded, load_sibling_plans(loaded))
    parallel = predict_run_parallel(loaded, measured, tables, operators)
    if as_json:
        print_json("show", build_run_document(result, figures, tables, measured, parallel, count))
    else:
        print_run(result, figures, tables, measured, parallel, count)


def _select_standalone_figures(result: RunComparison) -> list[MetricValue]:
    """Select the figures that need no baseline."""
    others = (
        *RELATIVE_METRICS,
        *RELATIVE_MEMORY_METRICS,
        *COMPILE_METRICS,
        *WATERFALL_METRICS,
        *PREDICTED_METRICS,
        *RELATIVE_RECORDED_METRICS,
    )
    return [figure for figure in result.metrics if figure.metric.id not in others]
