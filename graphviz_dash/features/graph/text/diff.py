"""Difference of two graphs on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_heading,
    print_rows,
    print_table,
    print_text,
)
from graphviz_dash.features.graph.diff.graph_diff import EdgeDiff, GraphDiff
from graphviz_dash.features.graph.diff.graph_pair import GraphPair
from graphviz_dash.features.graph.diff_columns import list_diff_columns
from graphviz_dash.features.graph.diff_document import DiffSide
from graphviz_dash.features.graph.diff_narrative import (
    describe_update_prediction,
    describe_update_result,
    summarize_graph_diff,
)
from graphviz_dash.units import format_count, pluralize


def print_graph_pair(
    first: DiffSide,
    second: DiffSide,
    pair: GraphPair,
    tables: tuple[NodeTable, NodeTable],
    count: int,
) -> None:
    """Print at most ``count`` node differences, and whether one graph can be updated to the
    other."""
    click.echo(summarize_graph_diff(pair.diff))
    click.echo()
    sides = create_table("", "")
    sides.show_header = False
    for title, side, graph in (("A", first, pair.diff.a), ("B", second, pair.diff.b)):
        called = f" ({graph.name})" if graph.name else ""
        counts = f"{pluralize(len(graph.nodes), 'node')}, {pluralize(len(graph.edges), 'edge')}"
        sides.add_row(build_cell(title, "dim"), f"{side.name}{called}: {counts}")
    print_table(sides)
    for graph_diff in pair.diff.levels:
        _print_node_differences(graph_diff, tables if graph_diff is pair.diff else None, count)
    print_heading("Updating an executable of A to B (cudaGraphExecUpdate)")
    print_text(f"  documented rules: {describe_update_prediction(pair.prediction)}")
    if pair.recorded_update is not None:
        agreed = " (not as predicted)" if pair.is_prediction_correct is False else ""
        print_text(f"  driver: {describe_update_result(pair.recorded_update)}{agreed}")


def _print_node_differences(
    diff: GraphDiff, tables: tuple[NodeTable, NodeTable] | None, count: int
) -> None:
    nodes = [node for node in diff.nodes if node.change is not Change.SAME]
    edges = [edge for edge in diff.edges if edge.change is not Change.SAME]
    if not nodes and not edges:
        return
    print_heading(f"{diff.a.id} and {diff.b.id}")
    if edges:
        listed = "; ".join(_format_edge(edge) for edge in edges[:count])
        more = len(edges) - min(count, len(edges))
        click.echo(f"  edges: {listed}" + (f"; and {format_count(more)} more" if more else ""))
        click.echo()
    if nodes[:count]:
        print_rows(list_diff_columns(tables), nodes[:count])
    if len(nodes) > count:
        click.echo(f"  and {format_count(len(nodes) - count)} more; --nodes N lists more")


def _format_edge(edge: EdgeDiff) -> str:
    ends, side = (edge.b, "B") if edge.b is not None else (edge.a, "A")
    source, target = ends or (0, 0)
    return f"{edge.change.value} {source} to {target} of {side}"
