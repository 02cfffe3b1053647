"""``graphviz-dash diff``: comparison of two captured graphs."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.loop.keys import list_graph_names
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_table
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.loading import open_run
from graphviz_dash.cli.options import JSON_OPTION, add_count_option
from graphviz_dash.cli.text.output import (
    print_json,
)
from graphviz_dash.errors import InputError
from graphviz_dash.features.graph.diff.graph_pair import compare_graphs
from graphviz_dash.features.graph.diff_document import DiffSide, build_graph_pair_document
from graphviz_dash.features.graph.text.diff import print_graph_pair
from graphviz_dash.model.run import Run


@click.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@add_count_option("--nodes", 20, "different nodes to list")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything differs, like git.")
@JSON_OPTION
def diff_command(a: str, b: str, count: int, exit_code: bool, as_json: bool) -> None:
    """Compare two captured graphs: nodes and edges added, removed, changed, moved.

    A and B are run bundles. If a run has several graphs, add a colon and the id of a graph, or its
    family and key: runs/new/graph, runs/new/callables:graph-1, "runs/server:decode, batch 64". Also
    predicts from the documented rules whether cudaGraphExecUpdate accepts B for an executable of A,
    and shows the driver's result if it was recorded.
    """
    first = _resolve_side(a)
    second = _resolve_side(b, first.run)
    pair = compare_graphs(first.run, first.graph, second.run, second.graph)
    tables = _build_node_table(first), _build_node_table(second)
    if as_json:
        print_json("diff", build_graph_pair_document(first, second, pair, tables))
    else:
        print_graph_pair(first, second, pair, tables, count)
    if exit_code and not pair.diff.is_same:
        raise click.exceptions.Exit(1)


def _resolve_side(text: str, loaded: Run | None = None) -> DiffSide:
    """Resolve an argument; ``loaded`` saves loading its run again."""
    path, graph = Path(text), ""
    if not is_bundle(path) and ":" in text:
        before, _, graph = text.rpartition(":")
        path = Path(before)
    path = path.absolute()
    run = loaded if loaded is not None and loaded.path == path else open_run(path)
    graph_ids = [graph_of_run.id for graph_of_run in run.graphs if graph_of_run.parent is None]
    by_name = {name: graph_id for graph_id, name in list_graph_names(run.loop).items()}
    graph = by_name.get(graph, graph)
    if not graph_ids:
        raise InputError(text, "a run without a captured graph", "a run with one")
    if graph and graph not in {graph_of_run.id for graph_of_run in run.graphs}:
        raise InputError(text, f"no graph {graph!r}", f"one of {', '.join(graph_ids)}")
    if not graph and len(graph_ids) > 1:
        raise InputError(
            text,
            f"a run with {len(graph_ids)} graphs",
            f"{text}: followed by one of {', '.join(graph_ids)}",
        )
    return DiffSide(run, graph or graph_ids[0])


def _build_node_table(side: DiffSide) -> NodeTable:
    return build_table(side.run, side.graph)
