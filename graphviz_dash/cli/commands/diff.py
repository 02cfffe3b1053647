"""``graphviz-dash diff``: two captured graphs compared."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from graphviz_dash.analysis.diff.graph_diff import Change, EdgeDiff, GraphDiff
from graphviz_dash.analysis.diff.graph_pair import GraphPair, pair_graphs
from graphviz_dash.analysis.nodes.node_table import NodeTable, node_table
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.loading import loaded_run
from graphviz_dash.cli.text.output import (
    ABSENT,
    cell,
    plain_table,
    print_heading,
    print_json,
    print_table,
    shorten,
)
from graphviz_dash.errors import InputError, printable
from graphviz_dash.exports.documents.diff import DiffSide, graph_pair_document, medians
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.graphs import (
    answer_sentence,
    diff_sentence,
    node_changes,
    prediction_sentence,
)
from graphviz_dash.units import counted, format_count, format_ns

_NAME_LENGTH: Final = 56


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
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document (docs/cli.md).")
def diff_command(a: str, b: str, count: int, exit_code: bool, as_json: bool) -> None:
    """Compare two captured graphs: nodes and edges added, removed, changed, moved.

    A and B are run bundles, each with the id of a graph after a colon where it has several:
    runs/new/graph or runs/new/callables:graph-1. Also says whether cudaGraphExecUpdate would take B
    for an executable of A, by its documented rules and, where it was recorded, as the driver
    answered.
    """
    first = _side(a)
    second = _side(b, first.run)
    pair = pair_graphs(first.run, first.graph, second.run, second.graph)
    tables = _table(first), _table(second)
    if as_json:
        print_json("diff", graph_pair_document(first, second, pair, tables))
    else:
        _print(first, second, pair, tables, count)
    if exit_code and not pair.diff.same:
        raise click.exceptions.Exit(1)


def _side(text: str, known: Run | None = None) -> DiffSide:
    """What an argument means; ``known`` is a run that need not be loaded again."""
    path, graph = Path(text), ""
    if not is_bundle(path) and ":" in text:
        before, _, graph = text.rpartition(":")
        path = Path(before)
    path = path.absolute()
    run = known if known is not None and known.path == path else loaded_run(path)
    whole = [one.id for one in run.graphs if one.parent is None]
    if not whole:
        raise InputError(text, "a run without a captured graph", "a run with one")
    if graph and graph not in {one.id for one in run.graphs}:
        raise InputError(text, f"no graph {graph!r}", f"one of {', '.join(whole)}")
    if not graph and len(whole) > 1:
        raise InputError(
            text, f"a run with {len(whole)} graphs", f"{text}: and one of {', '.join(whole)}"
        )
    return DiffSide(run, graph or whole[0])


def _table(side: DiffSide) -> NodeTable:
    return node_table(side.run, side.graph)


def _print(
    first: DiffSide,
    second: DiffSide,
    pair: GraphPair,
    tables: tuple[NodeTable, NodeTable],
    count: int,
) -> None:
    click.echo(diff_sentence(pair.diff))
    click.echo()
    sides = plain_table("", "")
    sides.show_header = False
    for title, side, graph in (("A", first, pair.diff.a), ("B", second, pair.diff.b)):
        called = f" ({graph.name})" if graph.name else ""
        counts = f"{counted(len(graph.nodes), 'node')}, {counted(len(graph.edges), 'edge')}"
        sides.add_row(cell(title, "dim"), cell(f"{side.name}{called}: {counts}"))
    print_table(sides)
    for one in pair.diff.whole:
        _print_nodes(one, tables if one is pair.diff else None, count)
    print_heading("Updating an executable of A to B (cudaGraphExecUpdate)")
    click.echo(printable(f"  by its rules: {prediction_sentence(pair.prediction)}"))
    if pair.recorded is not None:
        agreed = " (not as predicted)" if pair.agreed is False else ""
        click.echo(printable(f"  the driver: {answer_sentence(pair.recorded)}{agreed}"))


def _print_nodes(diff: GraphDiff, tables: tuple[NodeTable, NodeTable] | None, count: int) -> None:
    nodes = [node for node in diff.nodes if node.change is not Change.SAME]
    edges = [edge for edge in diff.edges if edge.change is not Change.SAME]
    if not nodes and not edges:
        return
    print_heading(f"{diff.a.id} and {diff.b.id}")
    if edges:
        listed = "; ".join(_edge_text(edge) for edge in edges[:count])
        more = len(edges) - min(count, len(edges))
        click.echo(f"  edges: {listed}" + (f"; and {format_count(more)} more" if more else ""))
        click.echo()
    table = plain_table("change", "A", "B", "node", "median A", "median B", "what differs")
    for column in (1, 2, 4, 5):
        table.columns[column].justify = "right"
    for node in nodes[:count]:
        before, after = medians(node, tables)
        table.add_row(
            cell(node.change.value),
            cell(ABSENT if node.a is None else node.a),
            cell(ABSENT if node.b is None else node.b),
            cell(shorten(node.label, _NAME_LENGTH)),
            cell(format_ns(before)),
            cell(format_ns(after)),
            cell(node_changes(node)),
        )
    if nodes[:count]:
        print_table(table)
    if len(nodes) > count:
        click.echo(f"  and {format_count(len(nodes) - count)} more; --nodes N lists more")


def _edge_text(edge: EdgeDiff) -> str:
    ends, side = (edge.b, "B") if edge.b is not None else (edge.a, "A")
    source, target = ends or (0, 0)
    return f"{edge.change.value} {source} to {target} of {side}"
