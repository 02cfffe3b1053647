"""A graph with its child graphs and the bodies that ran put in place, as a launch runs them."""

from __future__ import annotations

from itertools import product
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, field

from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, NodeKind

Choice: TypeAlias = frozenset[str]
"""The ids of the bodies of conditional nodes that a launch ran."""

SHOWN_KINDS: Final = frozenset({NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET})
"""Kinds of node whose work is a row of a trace."""

_MOST_VARIANTS: Final = 256
"""A graph whose conditional nodes can choose in more ways is matched without their bodies."""


class FlatGraph(Struct):
    """A graph with the bodies of its nodes in their places."""

    graph: CapturedGraph
    """All nodes, and the edges between them."""
    root: str
    """Id of the graph that is launched."""
    owner: list[str] = field(default_factory=list)
    """For each node the id of its own graph; "" for one that only stands for the end of a child
    graph or body."""
    index: list[int] = field(default_factory=list)
    """For each node its index in its own graph; -1 for one that only stands for an end."""


def flat_variants(graph: CapturedGraph, by_id: dict[str, CapturedGraph]) -> list[FlatGraph]:
    """``graph`` as each of the ways in which a launch can run it, by what its conditional nodes
    choose: none of its bodies or one. One flat graph where there is no choice.

    The profiler shows a body at most once a launch, that of a While too, however often it runs.
    """
    choices = _choices(graph, by_id)
    flats = [flatten(graph, by_id, choice) for choice in choices or [frozenset()]]
    if len(flats) > 1:
        for number, flat in enumerate(flats):
            flat.graph = msgspec.structs.replace(flat.graph, id=f"{graph.id}?{number}")
    return flats


def _choices(graph: CapturedGraph, by_id: dict[str, CapturedGraph]) -> list[Choice]:
    """What the conditionals of a graph and of its child graphs can choose that a trace would show;
    empty if in too many ways."""
    combinations: list[Choice] = [frozenset()]
    for node in graph.nodes:
        if not node.bodies:
            continue
        bodies = [by_id[body] for body in node.bodies if body in by_id]
        inside = [_choices(body, by_id) for body in bodies]
        if not all(inside):
            return []
        if node.kind is NodeKind.CHILD_GRAPH:
            options = [choice for choices in inside for choice in choices]
        else:
            options = [frozenset[str]()]
            for body, choices in zip(bodies, inside, strict=True):
                if _shows(body, by_id):
                    options += [choice | {body.id} for choice in choices]
        if options and len(combinations) * len(options) > _MOST_VARIANTS:
            return []
        combinations = [a | b for a, b in product(combinations, options or [frozenset[str]()])]
    return combinations


def _shows(graph: CapturedGraph, by_id: dict[str, CapturedGraph]) -> bool:
    """Whether anything of a graph can be a row of a trace."""
    return any(
        node.kind in SHOWN_KINDS
        or any(_shows(by_id[body], by_id) for body in node.bodies if body in by_id)
        for node in graph.nodes
    )


def flatten(
    graph: CapturedGraph, by_id: dict[str, CapturedGraph], ran: Choice = frozenset()
) -> FlatGraph:
    """``graph`` with the bodies of its child graph nodes and the bodies of ``ran``, and theirs,
    between what the node depends on and what depends on it.

    A graph without any comes out as it is.
    """
    count = len(graph.nodes)
    if not any(node.bodies for node in graph.nodes):
        return FlatGraph(graph, graph.id, [graph.id] * count, list(range(count)))
    nodes: list[GraphNode] = []
    edges: list[GraphEdge] = []
    flat = FlatGraph(graph, graph.id)
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
            run = (
                node.bodies if node.kind is NodeKind.CHILD_GRAPH else ran.intersection(node.bodies)
            )
            body = by_id.get(next(iter(run))) if run else None
            if body is not None:
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
            edges.extend(GraphEdge(begin, target) for index, target in inner if index not in later)
            edges.extend(
                GraphEdge(ends[part.id, index], end) for index, _ in inner if index not in earlier
            )
    if len(nodes) > count:
        flat.graph = msgspec.structs.replace(graph, nodes=tuple(nodes), edges=tuple(edges))
    return flat
