"""``graphviz-dash export``: files of a captured graph."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.nodes.concurrency import run_concurrency
from graphviz_dash.analysis.nodes.measured_graph import measure_graph, node_timing_replays
from graphviz_dash.analysis.nodes.node_table import node_tables
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph, whole_graph
from graphviz_dash.cli.exporting.files import output_option, print_file
from graphviz_dash.cli.loading import loaded_run
from graphviz_dash.errors import InputError
from graphviz_dash.exports.tables import node_frame, write_table
from graphviz_dash.features.graph.dot_export import export_dot
from graphviz_dash.features.prediction.analysis.data_graph import data_graph
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    run_parallel,
    step_operators,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.units import counted

_GRAPH = click.option("--graph", "graph_id", help="Id of the graph [default: the first graph].")


@click.command(short_help="Captured graph in the DOT language.")
@click.argument("run", type=click.Path(path_type=Path))
@output_option
@_GRAPH
@click.option(
    "--by-data",
    is_flag=True,
    help="Draw only data dependencies.",
)
def dot(run: Path, file: Path, graph_id: str | None, by_data: bool) -> None:
    """Write a captured graph of a RUN in the DOT language, with nested graphs as clusters."""
    loaded = loaded_run(run)
    graph = _whole(loaded, graph_id)
    if by_data:
        graph = _by_data(loaded, graph)
    table = graph.table
    export_dot(graph, f"{run.name} {table.graph.id}", file)
    print_file(
        file, f"{counted(len(table.rows), 'node')}, {counted(len(table.graph.edges), 'edge')}"
    )


@click.command(short_help="Nodes of a captured graph as a table.")
@click.argument("run", type=click.Path(path_type=Path))
@output_option
@_GRAPH
def nodes(run: Path, file: Path, graph_id: str | None) -> None:
    """Write the nodes of a captured graph of a RUN and of its nested graphs as .csv or .parquet."""
    loaded = loaded_run(run)
    whole = _whole(loaded, graph_id)
    graph = next(captured for captured in loaded.graphs if captured.id == whole.table.graph.id)
    measured = measure_graph(graph, loaded.graphs, node_timing_replays(loaded))
    summary = write_table(node_frame(whole, measured), file)
    print_file(file, f"{summary.rows:,} nodes, {len(summary.columns)} columns")


def _by_data(run: Run, whole: WholeGraph) -> WholeGraph:
    """Return the graph with only its data dependencies."""
    graph_id = whole.table.graph.id
    tables = list(node_tables(run).values())
    concurrency = run_concurrency(run, tables)[graph_id]
    prediction = run_parallel(run, {graph_id: concurrency}, tables, step_operators(run))[graph_id]
    expected = "a graph with traced replays"
    if isinstance(concurrency, Missing):
        raise InputError(run.path, concurrency.reason, expected)
    if isinstance(prediction, Missing):
        raise InputError(run.path, prediction.reason, expected)
    data = data_graph(whole, concurrency.measured, prediction.work)
    if data is None:
        raise InputError(
            run.path, f"{graph_id} contains other graphs", "a graph without nested graphs"
        )
    return data.whole


def _whole(run: Run, graph_id: str | None) -> WholeGraph:
    graph_ids = [graph.id for graph in run.graphs]
    if not graph_ids:
        raise InputError(run.path, "a run without a captured graph", "a run of a graphed mode")
    if graph_id is not None and graph_id not in graph_ids:
        raise InputError(run.path, f"no graph {graph_id!r}", f"one of {', '.join(graph_ids)}")
    return whole_graph(run, graph_id or graph_ids[0])
