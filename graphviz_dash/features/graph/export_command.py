"""``graphviz-dash export``: files of a captured graph."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.nodes.concurrency import analyze_run
from graphviz_dash.analysis.nodes.measured_graph import find_timing_replays, measure_graph
from graphviz_dash.analysis.nodes.node_table import build_tables
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graph
from graphviz_dash.cli.exporting.files import OUTPUT_OPTION, print_file
from graphviz_dash.cli.loading import open_run
from graphviz_dash.errors import InputError
from graphviz_dash.exports.tables import build_node_frame, write_table
from graphviz_dash.features.graph.dot_export import export_dot
from graphviz_dash.features.prediction.analysis.data_graph import build_data_graph
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    find_step_operators,
    predict_run_parallel,
)
from graphviz_dash.ingest.load import load_sibling_plans
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.units import pluralize

_GRAPH_OPTION = click.option(
    "--graph", "graph_id", help="Id of the graph [default: the first graph]."
)


@click.command(short_help="Captured graph in the DOT language.")
@click.argument("run", type=click.Path(path_type=Path))
@OUTPUT_OPTION
@_GRAPH_OPTION
@click.option(
    "--by-data",
    is_flag=True,
    help="Draw only data dependencies.",
)
def dot(run: Path, file: Path, graph_id: str | None, by_data: bool) -> None:
    """Write a captured graph of a RUN in the DOT language, with nested graphs as clusters."""
    loaded = open_run(run)
    graph = _build_whole_graph(loaded, graph_id)
    if by_data:
        graph = _select_data_dependencies(loaded, graph)
    table = graph.table
    export_dot(graph, f"{run.name} {table.graph.id}", file)
    print_file(
        file, f"{pluralize(len(table.rows), 'node')}, {pluralize(len(table.graph.edges), 'edge')}"
    )


@click.command(short_help="Nodes of a captured graph as a table.")
@click.argument("run", type=click.Path(path_type=Path))
@OUTPUT_OPTION
@_GRAPH_OPTION
def nodes(run: Path, file: Path, graph_id: str | None) -> None:
    """Write the nodes of a captured graph of a RUN and of its nested graphs as .csv or .parquet."""
    loaded = open_run(run)
    full_graph = _build_whole_graph(loaded, graph_id)
    graph = next(captured for captured in loaded.graphs if captured.id == full_graph.table.graph.id)
    measured = measure_graph(graph, loaded.graphs, find_timing_replays(loaded))
    summary = write_table(build_node_frame(full_graph, measured), file)
    print_file(file, f"{summary.rows:,} nodes, {len(summary.columns)} columns")


def _select_data_dependencies(run: Run, full_graph: ExpandedGraph) -> ExpandedGraph:
    graph_id = full_graph.table.graph.id
    tables = list(build_tables(run).values())
    concurrency = analyze_run(run, tables)[graph_id]
    prediction = predict_run_parallel(
        run, {graph_id: concurrency}, tables, find_step_operators(run, load_sibling_plans(run))
    )[graph_id]
    expected = "a graph with traced replays"
    if isinstance(concurrency, Missing):
        raise InputError(run.path, concurrency.reason, expected)
    if isinstance(prediction, Missing):
        raise InputError(run.path, prediction.reason, expected)
    data = build_data_graph(full_graph, concurrency.measured, prediction.work)
    if data is None:
        raise InputError(
            run.path, f"{graph_id} contains other graphs", "a graph without nested graphs"
        )
    return data.full_graph


def _build_whole_graph(run: Run, graph_id: str | None) -> ExpandedGraph:
    graph_ids = [graph.id for graph in run.graphs]
    if not graph_ids:
        raise InputError(run.path, "a run without a captured graph", "a run of a graphed mode")
    if graph_id is not None and graph_id not in graph_ids:
        raise InputError(run.path, f"no graph {graph_id!r}", f"one of {', '.join(graph_ids)}")
    return expand_graph(run, graph_id or graph_ids[0])
