"""``graphviz-dash diff``: two captured graphs compared."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.loop.keys import graph_keys
from graphviz_dash.analysis.nodes.node_table import NodeTable, node_table
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.loading import loaded_run
from graphviz_dash.cli.text.output import (
    print_json,
)
from graphviz_dash.errors import InputError
from graphviz_dash.features.graph.diff.graph_pair import pair_graphs
from graphviz_dash.features.graph.diff_document import DiffSide, graph_pair_document
from graphviz_dash.features.graph.text.diff import print_graph_pair
from graphviz_dash.model.run import Run


@click.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--nodes",
    "count",
    default=20,
    show_default=True,
    type=click.IntRange(0),
    help="Nodes to list that differ; 0 for none.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 when anything differs, as git does.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
def diff_command(a: str, b: str, count: int, exit_code: bool, as_json: bool) -> None:
    """Compare two captured graphs: nodes and edges added, removed, changed, moved.

    A and B are run bundles, each with the id of a graph after a colon where it has several, or its
    family and key: runs/new/graph, runs/new/callables:graph-1, "runs/server:decode, batch 64". Also
    says whether cudaGraphExecUpdate would take B for an executable of A, by its documented rules
    and, where it was recorded, as the driver answered.
    """
    first = _side(a)
    second = _side(b, first.run)
    pair = pair_graphs(first.run, first.graph, second.run, second.graph)
    tables = _table(first), _table(second)
    if as_json:
        print_json("diff", graph_pair_document(first, second, pair, tables))
    else:
        print_graph_pair(first, second, pair, tables, count)
    if exit_code and not pair.diff.same:
        raise click.exceptions.Exit(1)


def _side(text: str, loaded: Run | None = None) -> DiffSide:
    """What an argument means; ``loaded`` is a run that need not be loaded again."""
    path, graph = Path(text), ""
    if not is_bundle(path) and ":" in text:
        before, _, graph = text.rpartition(":")
        path = Path(before)
    path = path.absolute()
    run = loaded if loaded is not None and loaded.path == path else loaded_run(path)
    whole = [graph_of_run.id for graph_of_run in run.graphs if graph_of_run.parent is None]
    by_name = {name: graph_id for graph_id, name in graph_keys(run.loop).items()}
    graph = by_name.get(graph, graph)
    if not whole:
        raise InputError(text, "a run without a captured graph", "a run with one")
    if graph and graph not in {graph_of_run.id for graph_of_run in run.graphs}:
        raise InputError(text, f"no graph {graph!r}", f"one of {', '.join(whole)}")
    if not graph and len(whole) > 1:
        raise InputError(
            text, f"a run with {len(whole)} graphs", f"{text}: and one of {', '.join(whole)}"
        )
    return DiffSide(run, graph or whole[0])


def _table(side: DiffSide) -> NodeTable:
    return node_table(side.run, side.graph)
