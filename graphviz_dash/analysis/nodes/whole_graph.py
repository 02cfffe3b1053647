"""A graph with all that it holds: child graphs and bodies of conditional nodes, as one table.

The nodes of the graph keep their indices; those of its bodies come after them. A node's number in
the whole is its *place*; pages and addresses name nodes by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.nodes.node_table import NodeRow, NodeTable, node_tables
from graphviz_dash.model.graph import (
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    GraphEdge,
    GraphNode,
    NodeKind,
)
from graphviz_dash.model.run import Run


class GraphBody(Struct, frozen=True):
    """A graph inside a node: its id, what it is to the node ("then", "case 2"), and the places of
    its own nodes."""

    graph: str
    title: str
    nodes: tuple[int, ...]


class WholeGraph(Struct, frozen=True):
    """A graph with what its nodes hold. A node's number in it is its *place*."""

    table: NodeTable
    """A row for each place, whose node's index is the place."""
    owner: tuple[tuple[str, int], ...]
    """Each place's graph and its index there."""
    bodies: Mapping[int, tuple[GraphBody, ...]]
    """What each node holds, by place, for those that hold any."""
    top: tuple[int, ...]
    """The places of the graph itself."""

    @classmethod
    def of(cls, table: NodeTable) -> WholeGraph:
        """A graph whose nodes hold none, or without what they hold."""
        owner = tuple((table.graph.id, row.node.index) for row in table.rows)
        return cls(table, owner, {}, tuple(range(len(table.rows))))

    def place(self, graph: str, index: int) -> int | None:
        """The place of a node; None if the whole does not hold it."""
        try:
            return self.owner.index((graph, index))
        except ValueError:
            return None

    @property
    def inside_body(self) -> frozenset[int]:
        """The places that lie in the body of a conditional node, which may run or not."""
        optional_nodes: set[int] = set()
        pending = [
            (body, self.table.rows[index].node.kind is NodeKind.CONDITIONAL)
            for index in self.top
            for body in self.bodies.get(index, ())
        ]
        while pending:
            body, optional = pending.pop()
            if optional:
                optional_nodes.update(body.nodes)
            for index in body.nodes:
                inner = optional or self.table.rows[index].node.kind is NodeKind.CONDITIONAL
                pending += [(inner_body, inner) for inner_body in self.bodies.get(index, ())]
        return frozenset(optional_nodes)

    @property
    def work_ns(self) -> float:
        """GPU work of a replay: the nodes' medians, each by the share of replays that show it."""
        replays = self.table.replays
        return sum(
            (row.times.median_ns or 0.0) * row.times.samples / replays
            for row in self.table.rows
            if replays
        )


def whole_graph(run: Run, graph_id: str) -> WholeGraph:
    """A graph of ``run`` with all that it holds.

    Raises:
        KeyError: the run has no graph of that id.
    """
    by_id = {graph.id: graph for graph in run.graphs}
    tables = node_tables(run, [by_id[held] for held in _family(by_id[graph_id], by_id)])
    return assemble_whole_graph(graph_id, run.graphs, tables.__getitem__)


def assemble_whole_graph(
    graph_id: str, graphs: tuple[CapturedGraph, ...], table_of: Callable[[str], NodeTable]
) -> WholeGraph:
    """The whole of graph ``graph_id`` from the tables of it and of its bodies.

    Raises:
        KeyError: there is no graph of that id.
    """
    by_id = {graph.id: graph for graph in graphs}
    root = table_of(graph_id)
    order = _family(by_id[graph_id], by_id)
    if len(order) == 1:
        return WholeGraph.of(root)
    tables = [root, *(table_of(body_id) for body_id in order[1:])]
    first: dict[str, int] = {}
    rows: list[NodeRow] = []
    edges: list[GraphEdge] = []
    owner: list[tuple[str, int]] = []
    for name, table in zip(order, tables, strict=True):
        begin = first[name] = len(rows)
        for row in table.rows:
            owner.append((name, row.node.index))
            node = msgspec.structs.replace(row.node, index=begin + row.node.index)
            rows.append(msgspec.structs.replace(row, node=node) if begin else row)
        edges += [
            msgspec.structs.replace(edge, source=begin + edge.source, target=begin + edge.target)
            for edge in table.graph.edges
        ]
    top = tuple(range(len(root.rows)))
    bodies = {
        index: tuple(
            GraphBody(body, _title(row.node, number), _places(first[body], len(by_id[body].nodes)))
            for number, body in enumerate(row.node.bodies)
            if body in first
        )
        for index, row in enumerate(rows)
        if any(body in first for body in row.node.bodies)
    }
    nodes = tuple(row.node for row in rows)
    whole = replace(
        root,
        graph=msgspec.structs.replace(root.graph, nodes=nodes, edges=tuple(edges)),
        rows=tuple(rows),
        attributed=sum(table.attributed for table in tables),
        replay_kernels=sum(table.replay_kernels for table in tables),
        matched_kernels=sum(table.matched_kernels for table in tables),
    )
    return WholeGraph(whole, tuple(owner), bodies, top)


def _family(graph: CapturedGraph, by_id: Mapping[str, CapturedGraph]) -> list[str]:
    """The ids of a graph and of all that lies in it, the outer before the inner."""
    ids = [graph.id]
    for name in ids:
        for node in by_id[name].nodes:
            ids += [body for body in node.bodies if body in by_id]
    return ids


def _places(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


def _title(node: GraphNode, number: int) -> str:
    """What a body is to the node that holds it."""
    params = node.params
    match params.type if isinstance(params, ConditionalParams) else None:
        case ConditionalType.IF:
            return "else" if number else "then"
        case ConditionalType.WHILE:
            return "each turn"
        case ConditionalType.SWITCH:
            return f"case {number}"
        case _:
            return "child graph" if node.kind is NodeKind.CHILD_GRAPH else f"body {number}"
