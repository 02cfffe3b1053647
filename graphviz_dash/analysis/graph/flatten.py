"""Flattening of a graph: child graphs and executed bodies are inlined, as in a launch."""

from __future__ import annotations

from itertools import product
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, field

from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, NodeKind

Choice: TypeAlias = frozenset[str]
"""Ids of the conditional bodies that a launch ran."""

VISIBLE_KINDS: Final = frozenset({NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET})
"""Node kinds whose work appears as rows of a trace."""

_MAX_VARIANTS: Final = 256
"""Maximum number of variants; graphs with more are matched without conditional bodies."""


class FlatGraph(Struct):
    """A graph with the bodies of its nodes inlined."""

    graph: CapturedGraph
    root: str
    """Id of the launched graph."""
    owners: list[str] = field(default_factory=list)
    """Graph of each node; "" for a placeholder at the end of a child graph or body."""
    indices: list[int] = field(default_factory=list)
    """Index in that graph; -1 for a placeholder."""


def list_flat_variants(graph: CapturedGraph, by_id: dict[str, CapturedGraph]) -> list[FlatGraph]:
    """Flatten ``graph`` for each combination of its conditional nodes: no body or one.

    The profiler shows a body at most once per launch, including While bodies.
    """
    choices = _list_choices(graph, by_id)
    flats = [flatten_graph(graph, by_id, choice) for choice in choices or [frozenset()]]
    if len(flats) > 1:
        for number, flat in enumerate(flats):
            flat.graph = msgspec.structs.replace(flat.graph, id=f"{graph.id}?{number}")
    return flats


def _list_choices(graph: CapturedGraph, by_id: dict[str, CapturedGraph]) -> list[Choice]:
    """List the visible choices of a graph's nested conditionals; empty if too many."""
    combinations: list[Choice] = [frozenset()]
    for node in graph.nodes:
        if not node.bodies:
            continue
        bodies = [by_id[body] for body in node.bodies if body in by_id]
        body_choices = [_list_choices(body, by_id) for body in bodies]
        if not all(body_choices):
            return []
        if node.kind is NodeKind.CHILD_GRAPH:
            options = [choice for choices in body_choices for choice in choices]
        else:
            options = [frozenset[str]()]
            for body, choices in zip(bodies, body_choices, strict=True):
                if _is_visible(body, by_id):
                    options += [choice | {body.id} for choice in choices]
        if options and len(combinations) * len(options) > _MAX_VARIANTS:
            return []
        combinations = [a | b for a, b in product(combinations, options or [frozenset[str]()])]
    return combinations


def _is_visible(graph: CapturedGraph, by_id: dict[str, CapturedGraph]) -> bool:
    return any(
        node.kind in VISIBLE_KINDS
        or any(_is_visible(by_id[body], by_id) for body in node.bodies if body in by_id)
        for node in graph.nodes
    )


def flatten_graph(
    graph: CapturedGraph, by_id: dict[str, CapturedGraph], executed: Choice = frozenset()
) -> FlatGraph:
    """Inline child graphs and the bodies in ``executed``, recursively.

    A graph without bodies is returned unchanged.
    """
    count = len(graph.nodes)
    if not any(node.bodies for node in graph.nodes):
        return FlatGraph(graph, graph.id, [graph.id] * count, list(range(count)))
    nodes: list[GraphNode] = []
    edges: list[GraphEdge] = []
    flat = FlatGraph(graph, graph.id)
    ends: dict[tuple[str, int], int] = {}
    positions: dict[tuple[str, int], int] = {}

    def add(node: GraphNode, owner: str) -> int:
        nodes.append(msgspec.structs.replace(node, index=len(nodes)))
        flat.owners.append(owner)
        flat.indices.append(node.index if owner else -1)
        return len(nodes) - 1

    # Graphs still to inline, with the nodes before and after them.
    pending: list[tuple[CapturedGraph, int | None, int | None]] = [(graph, None, None)]
    while pending:
        subgraph, begin, end = pending.pop()
        for node in subgraph.nodes:
            key = (subgraph.id, node.index)
            positions[key] = ends[key] = add(node, subgraph.id)
            run = (
                node.bodies
                if node.kind is NodeKind.CHILD_GRAPH
                else executed.intersection(node.bodies)
            )
            body = by_id.get(next(iter(run))) if run else None
            if body is not None:
                ends[key] = add(GraphNode(0, NodeKind.EMPTY), "")
                edges.append(GraphEdge(positions[key], ends[key]))
                pending.append((body, positions[key], ends[key]))
        edges.extend(
            GraphEdge(ends[subgraph.id, edge.source], positions[subgraph.id, edge.target])
            for edge in subgraph.edges
        )
        if begin is not None and end is not None:
            has_predecessor = {edge.target for edge in subgraph.edges}
            has_successor = {edge.source for edge in subgraph.edges}
            part_nodes = [
                (node.index, positions[subgraph.id, node.index]) for node in subgraph.nodes
            ]
            edges.extend(
                GraphEdge(begin, target)
                for index, target in part_nodes
                if index not in has_predecessor
            )
            edges.extend(
                GraphEdge(ends[subgraph.id, index], end)
                for index, _ in part_nodes
                if index not in has_successor
            )
    if len(nodes) > count:
        flat.graph = msgspec.structs.replace(graph, nodes=tuple(nodes), edges=tuple(edges))
    return flat
