"""Validation of a bundle's graphs beyond their types."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from graphviz_dash.bundle.parts import format_graph_path
from graphviz_dash.errors import InputError
from graphviz_dash.model.graph import (
    PARAMS_BY_KIND,
    CapturedGraph,
    ConditionalParams,
    MemFreeParams,
    NodeKind,
)


def check_graphs(graphs: tuple[CapturedGraph, ...], path: Path) -> None:
    """Reject contradictory nodes, edges, parameters, operands or bodies.

    Raises:
        InputError: A graph is invalid; names its file in the bundle at ``path``.
    """
    for graph in graphs:
        file = path / format_graph_path(graph.id)
        _check_order(graph, file)
        _check_params(graph, file)
        _check_operands(graph, file)
    _check_bodies(graphs, path)


def _check_order(graph: CapturedGraph, source: Path) -> None:
    """Reject nodes out of order, edges to missing nodes, and cycles."""
    count = len(graph.nodes)
    for position, node in enumerate(graph.nodes):
        if node.index != position:
            description = f"node {node.index} at position {position}"
            raise InputError(source, description, "nodes in index order")
    for edge in graph.edges:
        if edge.source >= count or edge.target >= count or edge.source == edge.target:
            raise InputError(
                source,
                f"an edge from node {edge.source} to node {edge.target}",
                f"two different nodes of the {count:,} in the graph",
            )
    # Captures create nodes after their dependencies, so a cycle requires a backward edge.
    if any(edge.source > edge.target for edge in graph.edges):
        order: TopologicalSorter[int] = TopologicalSorter()
        for edge in graph.edges:
            order.add(edge.target, edge.source)
        try:
            order.prepare()
        except CycleError as error:
            cycle = f"a cycle through node {min(error.args[1])}"
            raise InputError(source, cycle, "a graph without cycles") from error


def _check_params(graph: CapturedGraph, source: Path) -> None:
    """Reject parameters of another node kind, and a free without an allocating node."""
    for node in graph.nodes:
        params = node.params
        if params is not None and type(params) is not PARAMS_BY_KIND.get(node.kind):
            raise InputError(
                source,
                f"node {node.index} of kind {node.kind.value} with the parameters of another kind",
                "parameters of the node's kind, or none",
            )
        if isinstance(params, MemFreeParams) and params.allocated_by is not None:
            allocator = params.allocated_by
            if (
                allocator >= len(graph.nodes)
                or graph.nodes[allocator].kind is not NodeKind.MEM_ALLOC
            ):
                raise InputError(
                    source,
                    f"node {node.index} frees memory of node {allocator}",
                    "the index of a node of kind MemAlloc",
                )
        if node.bodies and node.kind not in (NodeKind.CHILD_GRAPH, NodeKind.CONDITIONAL):
            raise InputError(
                source,
                f"node {node.index} of kind {node.kind.value} with bodies",
                "bodies of nodes of kind ChildGraph or Conditional",
            )
        if isinstance(params, ConditionalParams) and (
            params.size is not None and len(node.bodies) not in (0, params.size)
        ):
            raise InputError(
                source,
                f"node {node.index} with {len(node.bodies)} bodies of {params.size}",
                "all of its bodies, or none if not read",
            )


def _check_operands(graph: CapturedGraph, source: Path) -> None:
    """Reject operands that are empty, out of order or overlapping."""
    for node in graph.nodes:
        last = (-1, 0)
        for operand in node.operands or ():
            if operand.bytes == 0 or (operand.allocation, operand.offset) < last:
                raise InputError(
                    source,
                    f"node {node.index} with operands that are empty, out of order or overlapping",
                    "non-empty, disjoint operands sorted by allocation and offset",
                )
            last = (operand.allocation, operand.offset + operand.bytes)


def _check_bodies(graphs: tuple[CapturedGraph, ...], path: Path) -> None:
    """Reject inconsistent bodies, and graphs that contain themselves, so that descending
    terminates."""
    by_id = {graph.id: graph for graph in graphs}
    linked: set[str] = set()
    for graph in graphs:
        for node in graph.nodes:
            for body in node.bodies:
                if body not in by_id or by_id[body].parent != (graph.id, node.index):
                    raise InputError(
                        path / format_graph_path(graph.id),
                        f"node {node.index} with body {body!r}",
                        f"a graph of that id whose parent is node {node.index} of {graph.id!r}",
                    )
                linked.add(body)
    for graph in graphs:
        if graph.parent is not None and graph.id not in linked:
            raise InputError(
                path / format_graph_path(graph.id),
                f"parent node {graph.parent[1]} of {graph.parent[0]!r}",
                "a node that lists this graph as its body",
            )
    for graph in graphs:
        known_ids = {graph.id}
        parent = graph.parent
        while parent is not None:
            if parent[0] in known_ids:
                raise InputError(
                    path / format_graph_path(graph.id), "a graph inside itself", "bodies as a tree"
                )
            known_ids.add(parent[0])
            parent = by_id[parent[0]].parent
