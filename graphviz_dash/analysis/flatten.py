"""A graph with its child graphs put in place of the nodes that hold them, as a launch runs them."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, NodeKind


@dataclass
class Flat:
    """``graph`` has all nodes; ``owner`` and ``index`` name each node's own graph and its index in
    it, the owner "" for a node that only stands for the end of a child graph."""

    graph: CapturedGraph
    owner: list[str] = field(default_factory=list)
    index: list[int] = field(default_factory=list)


def flatten(graph: CapturedGraph, by_id: dict[str, CapturedGraph]) -> Flat:
    """``graph`` with the bodies of its child graph nodes, and theirs, between what the node depends
    on and what depends on it.

    A graph without any comes out as it is. Bodies of conditional nodes run as often as their
    condition says, not once, and stay out.
    """
    nodes: list[GraphNode] = []
    edges: list[GraphEdge] = []
    flat = Flat(graph)
    ends: dict[tuple[str, int], int] = {}
    places: dict[tuple[str, int], int] = {}

    def add(node: GraphNode, owner: str) -> int:
        nodes.append(msgspec.structs.replace(node, index=len(nodes)))
        flat.owner.append(owner)
        flat.index.append(node.index if owner else -1)
        return len(nodes) - 1

    # Parts of graphs that are still to be put in, each with the places it lies between.
    pending: list[tuple[CapturedGraph, int | None, int | None]] = [(graph, None, None)]
    while pending:
        part, begin, end = pending.pop()
        for node in part.nodes:
            key = (part.id, node.index)
            places[key] = ends[key] = add(node, part.id)
            body = by_id.get(node.bodies[0]) if node.bodies else None
            if node.kind is NodeKind.CHILD_GRAPH and body is not None:
                ends[key] = add(GraphNode(0, NodeKind.EMPTY), "")
                edges.append(GraphEdge(places[key], ends[key]))
                pending.append((body, places[key], ends[key]))
        edges.extend(
            GraphEdge(ends[part.id, edge.source], places[part.id, edge.target])
            for edge in part.edges
        )
        if begin is not None and end is not None:
            later = {edge.target for edge in part.edges}
            earlier = {edge.source for edge in part.edges}
            inner = [(node.index, places[part.id, node.index]) for node in part.nodes]
            edges.extend(GraphEdge(begin, place) for one, place in inner if one not in later)
            edges.extend(
                GraphEdge(ends[part.id, one], end) for one, _ in inner if one not in earlier
            )
    if len(nodes) > len(graph.nodes):
        flat.graph = msgspec.structs.replace(graph, nodes=tuple(nodes), edges=tuple(edges))
    return flat
