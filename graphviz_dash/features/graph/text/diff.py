"""Difference of two graphs on the terminal."""

from __future__ import annotations

from typing import Final

import click

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.cli.text.output import (
    ABSENT,
    cell,
    plain_table,
    print_heading,
    print_table,
    shorten,
)
from graphviz_dash.errors import printable
from graphviz_dash.features.graph.diff.graph_diff import EdgeDiff, GraphDiff
from graphviz_dash.features.graph.diff.graph_pair import GraphPair
from graphviz_dash.features.graph.diff_document import DiffSide, medians
from graphviz_dash.features.graph.diff_narrative import (
    answer_sentence,
    diff_sentence,
    node_changes,
    prediction_sentence,
)
from graphviz_dash.units import counted, format_count, format_ns

_NAME_LENGTH: Final = 56


def print_graph_pair(
    first: DiffSide,
    second: DiffSide,
    pair: GraphPair,
    tables: tuple[NodeTable, NodeTable],
    count: int,
) -> None:
    """Print at most ``count`` node differences between two graphs, and whether one can be updated
    to the other."""
    click.echo(diff_sentence(pair.diff))
    click.echo()
    sides = plain_table("", "")
    sides.show_header = False
    for title, side, graph in (("A", first, pair.diff.a), ("B", second, pair.diff.b)):
        called = f" ({graph.name})" if graph.name else ""
        counts = f"{counted(len(graph.nodes), 'node')}, {counted(len(graph.edges), 'edge')}"
        sides.add_row(cell(title, "dim"), cell(f"{side.name}{called}: {counts}"))
    print_table(sides)
    for graph_diff in pair.diff.whole:
        _print_nodes(graph_diff, tables if graph_diff is pair.diff else None, count)
    print_heading("Updating an executable of A to B (cudaGraphExecUpdate)")
    click.echo(printable(f"  documented rules: {prediction_sentence(pair.prediction)}"))
    if pair.recorded is not None:
        agreed = " (not as predicted)" if pair.agreed is False else ""
        click.echo(printable(f"  driver: {answer_sentence(pair.recorded)}{agreed}"))


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
    table = plain_table("change", "A", "B", "node", "median A", "median B", "difference")
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
