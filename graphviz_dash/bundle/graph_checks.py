"""What the graphs of a bundle must keep, beyond what their types can hold."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from graphviz_dash.bundle.parts import graph_path
from graphviz_dash.errors import InputError
from graphviz_dash.model.graph import (
    PARAMS_OF,
    CapturedGraph,
    ConditionalParams,
    MemFreeParams,
    NodeKind,
)


def check_graphs(graphs: tuple[CapturedGraph, ...], path: Path) -> None:
    """Refuses graphs whose nodes, edges, parameters, operands or bodies contradict each other.

    Raises:
        InputError: as said, with the file of the graph in the bundle at ``path``.
    """
    for graph in graphs:
        where = path / graph_path(graph.id)
        _check_order(graph, where)
        _check_params(graph, where)
        _check_operands(graph, where)
    _check_bodies(graphs, path)


def _check_order(graph: CapturedGraph, where: Path) -> None:
    """Refuses nodes out of order, edges that lead nowhere, and cycles."""
    count = len(graph.nodes)
    for position, node in enumerate(graph.nodes):
        if node.index != position:
            at = f"node {node.index} at place {position}"
            raise InputError(where, at, "nodes in index order")
    for edge in graph.edges:
        if edge.source >= count or edge.target >= count or edge.source == edge.target:
            raise InputError(
                where,
                f"an edge from node {edge.source} to node {edge.target}",
                f"two different nodes of the {count:,} in the graph",
            )
    # A capture creates nodes after what they depend on, so a cycle needs an edge that goes back.
    if any(edge.source > edge.target for edge in graph.edges):
        order: TopologicalSorter[int] = TopologicalSorter()
        for edge in graph.edges:
            order.add(edge.target, edge.source)
        try:
            order.prepare()
        except CycleError as error:
            cycle = f"a cycle through node {min(error.args[1])}"
            raise InputError(where, cycle, "a graph without cycles") from error


def _check_params(graph: CapturedGraph, where: Path) -> None:
    """Refuses parameters of another kind of node, and a free of what no node allocated."""
    for node in graph.nodes:
        params = node.params
        if params is not None and type(params) is not PARAMS_OF.get(node.kind):
            raise InputError(
                where,
                f"node {node.index} of kind {node.kind.value} with the parameters of another kind",
                "the parameters of its own kind, or none",
            )
        if isinstance(params, MemFreeParams) and params.allocated_by is not None:
            by = params.allocated_by
            if by >= len(graph.nodes) or graph.nodes[by].kind is not NodeKind.MEM_ALLOC:
                raise InputError(
                    where,
                    f"node {node.index} frees what node {by} allocated",
                    "the index of a node of kind MemAlloc",
                )
        if node.bodies and node.kind not in (NodeKind.CHILD_GRAPH, NodeKind.CONDITIONAL):
            raise InputError(
                where,
                f"node {node.index} of kind {node.kind.value} with bodies",
                "bodies of nodes of kind ChildGraph or Conditional",
            )
        if isinstance(params, ConditionalParams) and (
            params.size is not None and len(node.bodies) not in (0, params.size)
        ):
            raise InputError(
                where,
                f"node {node.index} with {len(node.bodies)} bodies of {params.size}",
                "all of its bodies, or none where they were not read",
            )


def _check_operands(graph: CapturedGraph, where: Path) -> None:
    """Refuses operands that are empty, out of order or overlap."""
    for node in graph.nodes:
        last = (-1, 0)
        for operand in node.operands or ():
            if operand.bytes == 0 or (operand.allocation, operand.offset) < last:
                raise InputError(
                    where,
                    f"node {node.index} with operands that are empty, out of order or overlap",
                    "operands of at least a byte, by allocation and offset, apart from each other",
                )
            last = (operand.allocation, operand.offset + operand.bytes)


def _check_bodies(graphs: tuple[CapturedGraph, ...], path: Path) -> None:
    """Refuses a body that does not name the node that holds it, or the other way round, and a graph
    inside itself: so whoever descends into bodies comes to an end."""
    by_id = {graph.id: graph for graph in graphs}
    held: set[str] = set()
    for graph in graphs:
        for node in graph.nodes:
            for body in node.bodies:
                if body not in by_id or by_id[body].parent != (graph.id, node.index):
                    raise InputError(
                        path / graph_path(graph.id),
                        f"node {node.index} with body {body!r}",
                        f"a graph of that id whose parent is node {node.index} of {graph.id!r}",
                    )
                held.add(body)
    for graph in graphs:
        if graph.parent is not None and graph.id not in held:
            raise InputError(
                path / graph_path(graph.id),
                f"parent node {graph.parent[1]} of {graph.parent[0]!r}",
                "a node that names this graph as its body",
            )
    for graph in graphs:
        seen = {graph.id}
        above = graph.parent
        while above is not None:
            if above[0] in seen:
                raise InputError(
                    path / graph_path(graph.id), "a graph inside itself", "bodies as a tree"
                )
            seen.add(above[0])
            above = by_id[above[0]].parent
