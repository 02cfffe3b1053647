"""Graphs inside and around a captured graph: child graphs and bodies of conditional nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphviz_dash.model.graph import CapturedGraph, GraphNode


def list_nested_graphs(
    graph: CapturedGraph, by_id: Mapping[str, CapturedGraph]
) -> list[CapturedGraph]:
    """List ``graph`` and all graphs inside it, outer before inner."""
    graphs = [graph]
    for outer in graphs:
        graphs += [by_id[body] for node in outer.nodes for body in node.bodies if body in by_id]
    return graphs


def iter_enclosing_nodes(
    graph: CapturedGraph, by_id: Mapping[str, CapturedGraph]
) -> Iterator[tuple[CapturedGraph, GraphNode]]:
    """Yield the nodes around ``graph`` after their graphs, innermost first."""
    while graph.parent is not None and graph.parent[0] in by_id:
        outer, index = by_id[graph.parent[0]], graph.parent[1]
        yield outer, outer.nodes[index]
        graph = outer


def find_root(graph: CapturedGraph, by_id: Mapping[str, CapturedGraph]) -> str:
    """Return the id of the outermost graph around ``graph``."""
    return [graph, *(outer for outer, _ in iter_enclosing_nodes(graph, by_id))][-1].id
