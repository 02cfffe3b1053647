"""``graphviz-dash show``: everything about one run."""

from __future__ import annotations

import os
from pathlib import Path

import click

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.derived_metrics import EQUATION
from graphviz_dash.analysis.comparison.recorded_figures import RECORDED_RELATIVE
from graphviz_dash.analysis.comparison.relative_metrics import COMPILED, PREDICTED, RELATIVE
from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.analysis.nodes.concurrency import run_concurrency
from graphviz_dash.analysis.nodes.node_table import node_tables
from graphviz_dash.app.compare.documents.run import single_run_document
from graphviz_dash.app.compare.text.run import print_run
from graphviz_dash.cli.loading import loaded_run
from graphviz_dash.cli.text.output import (
    print_json,
)
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    run_parallel,
    step_operators,
)
from graphviz_dash.model.run import Experiment


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--nodes",
    "count",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="Nodes to list of each graph, the longest first; 0 for none.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
def show(run: Path, count: int, as_json: bool) -> None:
    """Show a RUN: its figures, environment, graphs with their longest nodes, and what is absent.

    RUN is the folder of one run bundle. For a speedup give its experiment to compare.
    """
    # Made absolute, so that "." has a name.
    loaded = loaded_run(Path(os.path.abspath(run)))
    result = compare(Experiment(loaded.path.parent, (loaded,))).runs[0]
    tables = list(node_tables(loaded).values())
    measured = run_concurrency(loaded, tables)
    parallel = run_parallel(loaded, measured, tables, step_operators(loaded))
    figures = _own_figures(result)
    if as_json:
        print_json("show", single_run_document(result, figures, tables, measured, parallel, count))
    else:
        print_run(result, figures, tables, measured, parallel, count)


def _own_figures(result: RunComparison) -> list[Figure]:
    """The figures that need no baseline: one run by itself has none."""
    others = (*RELATIVE, *COMPILED, *EQUATION, *PREDICTED, *RECORDED_RELATIVE)
    return [figure for figure in result.figures if figure.metric.id not in others]
