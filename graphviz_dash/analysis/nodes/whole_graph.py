"""A graph with its child graphs and conditional bodies as one table.

The index in the table is the *place* of a node, used by pages and URLs. Own nodes keep their
indices; those of bodies follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.graph.nesting import list_nested_graphs
from graphviz_dash.analysis.nodes.node_table import NodeRow, NodeTable, build_tables
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
    """A graph inside a node: id, role ("then", "case 2"), and places of its nodes."""

    graph: str
    title: str
    nodes: tuple[int, ...]


class ExpandedGraph(Struct, frozen=True):
    """A graph with the contents of its nodes, indexed by place."""

    table: NodeTable
    owners: tuple[tuple[str, int], ...]
    """Graph id and index in that graph, by place."""
    bodies: Mapping[int, tuple[GraphBody, ...]]
    """By place of the containing node."""
    root_nodes: tuple[int, ...]
    """Places of the graph's own nodes."""

    @classmethod
    def from_table(cls, table: NodeTable) -> ExpandedGraph:
        """Build from a graph without bodies, or ignoring its bodies."""
        owner = tuple((table.graph.id, row.node.index) for row in table.rows)
        return cls(table, owner, {}, tuple(range(len(table.rows))))

    def find_place(self, graph: str, index: int) -> int | None:
        """Find the place of a node; None if absent."""
        try:
            return self.owners.index((graph, index))
        except ValueError:
            return None

    @property
    def optional_nodes(self) -> frozenset[int]:
        """Places inside bodies of conditional nodes, which do not always run."""
        optional_nodes: set[int] = set()
        pending = [
            (body, self.table.rows[index].node.kind is NodeKind.CONDITIONAL)
            for index in self.root_nodes
            for body in self.bodies.get(index, ())
        ]
        while pending:
            body, optional = pending.pop()
            if optional:
                optional_nodes.update(body.nodes)
            for index in body.nodes:
                is_nested_optional = (
                    optional or self.table.rows[index].node.kind is NodeKind.CONDITIONAL
                )
                pending += [
                    (inner_body, is_nested_optional) for inner_body in self.bodies.get(index, ())
                ]
        return frozenset(optional_nodes)

    @property
    def work_ns(self) -> float:
        """GPU work of a replay in ns: medians, weighted by the share of replays with the node."""
        replays = self.table.replays
        return sum(
            (row.times.median_ns or 0.0) * row.times.samples / replays
            for row in self.table.rows
            if replays
        )


def expand_graph(run: Run, graph_id: str) -> ExpandedGraph:
    """Build a graph of ``run`` with all nested graphs.

    Raises:
        KeyError: the run has no graph with that id.
    """
    return expand_graphs(run, (graph_id,))[0]


def expand_graphs(run: Run, graph_ids: Sequence[str]) -> tuple[ExpandedGraph, ...]:
    """Build several graphs of ``run``, reading its traces once.

    Raises:
        KeyError: the run has no graph with one of the ids.
    """
    by_id = {graph.id: graph for graph in run.graphs}
    nested_ids = dict.fromkeys(
        inner_graph.id
        for graph_id in graph_ids
        for inner_graph in list_nested_graphs(by_id[graph_id], by_id)
    )
    tables = build_tables(run, [by_id[nested_id] for nested_id in nested_ids])
    return tuple(combine_tables(graph_id, run.graphs, tables.__getitem__) for graph_id in graph_ids)


def combine_tables(
    graph_id: str, graphs: tuple[CapturedGraph, ...], get_table: Callable[[str], NodeTable]
) -> ExpandedGraph:
    """Combine the tables of graph ``graph_id`` and its bodies.

    Raises:
        KeyError: there is no graph with that id.
    """
    by_id = {graph.id: graph for graph in graphs}
    root = get_table(graph_id)
    order = [inner_graph.id for inner_graph in list_nested_graphs(by_id[graph_id], by_id)]
    if len(order) == 1:
        return ExpandedGraph.from_table(root)
    tables = [root, *(get_table(body_id) for body_id in order[1:])]
    first: dict[str, int] = {}
    rows: list[NodeRow] = []
    edges: list[GraphEdge] = []
    owners: list[tuple[str, int]] = []
    for name, table in zip(order, tables, strict=True):
        offset = first[name] = len(rows)
        for row in table.rows:
            owners.append((name, row.node.index))
            node = msgspec.structs.replace(row.node, index=offset + row.node.index)
            rows.append(msgspec.structs.replace(row, node=node) if offset else row)
        edges += [
            msgspec.structs.replace(edge, source=offset + edge.source, target=offset + edge.target)
            for edge in table.graph.edges
        ]
    top = tuple(range(len(root.rows)))
    bodies = {
        index: tuple(
            GraphBody(
                body,
                _format_title(row.node, number),
                _list_places(first[body], len(by_id[body].nodes)),
            )
            for number, body in enumerate(row.node.bodies)
            if body in first
        )
        for index, row in enumerate(rows)
        if any(body in first for body in row.node.bodies)
    }
    nodes = tuple(row.node for row in rows)
    combined_table = replace(
        root,
        graph=msgspec.structs.replace(root.graph, nodes=nodes, edges=tuple(edges)),
        rows=tuple(rows),
        attributed_nodes=sum(table.attributed_nodes for table in tables),
        replay_kernels=sum(table.replay_kernels for table in tables),
        matched_kernels=sum(table.matched_kernels for table in tables),
    )
    return ExpandedGraph(combined_table, tuple(owners), bodies, top)


def _list_places(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


def _format_title(node: GraphNode, number: int) -> str:
    params = node.params
    match params.type if isinstance(params, ConditionalParams) else None:
        case ConditionalType.IF:
            return "else" if number else "then"
        case ConditionalType.WHILE:
            return "each iteration"
        case ConditionalType.SWITCH:
            return f"case {number}"
        case _:
            return "child graph" if node.kind is NodeKind.CHILD_GRAPH else f"body {number}"
