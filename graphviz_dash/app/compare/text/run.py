"""One run on the terminal: facts, figures, graphs and their longest nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.app.compare.text.agreement import format_agreement
from graphviz_dash.app.compare.text.figures import (
    print_caveats,
    print_failures,
    print_figures,
    print_missing,
    print_remedies,
    print_tracebacks,
)
from graphviz_dash.app.compare.text.run_facts import print_facts, print_recorded_captures
from graphviz_dash.cli.text.output import print_more
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.text.graph import print_graph
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.headline import describe_run
from graphviz_dash.units import pluralize

_MAX_GRAPHS: Final = 16
"""Maximum number of graphs with listed nodes: a server has hundreds."""


def print_run_summary(
    result: RunComparison, figures: Sequence[MetricValue], tables: Sequence[NodeTable]
) -> None:
    """Print the outcome, main facts, main figures, graphs and failures of a run."""
    manifest = result.run.manifest
    click.echo(describe_run(result))
    click.echo(
        escape_control_characters(
            f"{manifest.workload.name}, mode {manifest.mode.value}, on "
            f"{manifest.environment.gpu_name}, {manifest.recorded_or_created_at[:10]}"
        )
    )
    print_figures([(result.name, figures)], brief=True)
    if tables:
        click.echo()
        nodes = sum(len(table.rows) for table in tables)
        graphs = pluralize(len(tables), "graph")
        click.echo(f"{graphs} with {pluralize(nodes, 'node')}")
    print_failures([result.run])
    print_remedies([result.run], with_baseline=False)


def print_run(
    result: RunComparison,
    figures: Sequence[MetricValue],
    tables: Sequence[NodeTable],
    measured: Mapping[str, Concurrency | Missing],
    parallel: Mapping[str, ParallelPrediction | Missing],
    count: int,
) -> None:
    """Print a run.

    ``figures`` need no baseline. ``measured`` and ``parallel`` map graph ids to concurrency and
    multi-stream predictions. The ``count`` longest nodes are listed for each of the first graphs.
    """
    click.echo(describe_run(result))
    print_facts(result.run)
    print_recorded_captures(result.run)
    print_figures([(result.name, figures)])
    for table in tables[:_MAX_GRAPHS]:
        graph = table.graph.id
        print_graph(result.run, table, measured.get(graph), parallel.get(graph), count)
    print_more(len(tables), _MAX_GRAPHS)
    if lines := format_agreement(result.run):
        click.echo()
        for line in lines:
            click.echo(escape_control_characters(line))
    print_failures([result.run])
    print_caveats([result])
    print_missing([(result.name, figures)])
    for fact in result.run.manifest.absent:
        click.echo(escape_control_characters(f"  {result.name}: {fact.fact}: {fact.reason}"))
    print_remedies([result.run], with_baseline=False)
    print_tracebacks(result.run)
