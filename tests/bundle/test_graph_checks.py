from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.model.graph import (
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    EventParams,
    GraphEdge,
    GraphNode,
    MemAllocParams,
    MemFreeParams,
    NodeKind,
    Operand,
    SemaphoreParams,
)
from tests.bundle.examples import GRAPH, write_bundle
from tests.bundle.forging import refusal, replace_graph


class TestGraphs:
    """A forger can make hashes agree; a graph must make sense all the same."""

    def test_nodes_out_of_order(self, bundle: Path) -> None:
        replace_graph(bundle, msgspec.structs.replace(GRAPH, nodes=GRAPH.nodes[::-1]))
        assert refusal(bundle).found == "node 2 at position 0"

    @pytest.mark.parametrize("ends", [(0, 3), (3, 0), (1, 1), (0, (1 << 63) - 1)])
    def test_an_edge_to_nowhere(self, bundle: Path, ends: tuple[int, int]) -> None:
        edge = msgspec.structs.replace(GRAPH.edges[0], source=ends[0], target=ends[1])
        replace_graph(bundle, msgspec.structs.replace(GRAPH, edges=(edge,)))
        assert refusal(bundle).found == f"an edge from node {ends[0]} to node {ends[1]}"

    def test_an_edge_back_is_no_cycle(self, bundle: Path) -> None:
        edge = msgspec.structs.replace(GRAPH.edges[0], source=2, target=1)
        graph = msgspec.structs.replace(GRAPH, edges=(*GRAPH.edges, edge))
        replace_graph(bundle, graph)
        assert read_bundle(bundle).graphs == (graph,)

    def test_a_cycle(self, bundle: Path) -> None:
        back = msgspec.structs.replace(GRAPH.edges[0], source=1, target=0)
        replace_graph(bundle, msgspec.structs.replace(GRAPH, edges=(*GRAPH.edges, back)))
        assert "cycle" in refusal(bundle).found

    def test_an_id_other_than_its_place(self, bundle: Path) -> None:
        replace_graph(bundle, msgspec.structs.replace(GRAPH, id="../graph-9"))
        assert refusal(bundle).found == "a graph with id '../graph-9'"

    @pytest.mark.parametrize("parent", [("graph-9", 0), ("graph-0", 0), ("graph-0", 99)])
    def test_a_parent_that_does_not_hold_it(self, bundle: Path, parent: tuple[str, int]) -> None:
        replace_graph(bundle, msgspec.structs.replace(GRAPH, parent=parent))
        assert refusal(bundle).found == f"parent node {parent[1]} of {parent[0]!r}"

    @pytest.mark.parametrize("body", ["graph-9", "graph-0"])
    def test_a_body_that_is_not_its_own(self, bundle: Path, body: str) -> None:
        replace_graph(bundle, _holding(GRAPH, body))
        assert refusal(bundle).found == f"node 2 with body {body!r}"

    def test_a_graph_inside_itself(self, bundle: Path) -> None:
        graph = _holding(msgspec.structs.replace(GRAPH, parent=("graph-0", 2)), "graph-0")
        replace_graph(bundle, graph)
        assert refusal(bundle).found == "a graph inside itself"

    def test_graphs_inside_each_other(self, tmp_path: Path) -> None:
        first = _holding(msgspec.structs.replace(GRAPH, id="a", parent=("b", 2)), "b")
        second = _holding(msgspec.structs.replace(GRAPH, id="b", parent=("a", 2)), "a")
        path = write_bundle(tmp_path / "run", graphs=(first, second))
        assert refusal(path).found == "a graph inside itself"

    def test_a_body_and_its_parent(self, tmp_path: Path) -> None:
        outer = _holding(GRAPH, "graph-0.2")
        inner = msgspec.structs.replace(GRAPH, id="graph-0.2", parent=("graph-0", 2))
        path = write_bundle(tmp_path / "run", graphs=(outer, inner))
        assert read_bundle(path).graphs == (outer, inner)


class TestParameters:
    @pytest.mark.parametrize(
        ("node", "found"),
        [
            (GraphNode(2, NodeKind.EMPTY, EventParams(0)), "with the parameters of another kind"),
            (
                GraphNode(2, NodeKind.MEM_FREE, EventParams(0)),
                "with the parameters of another kind",
            ),
            (
                GraphNode(2, NodeKind.MEM_FREE, MemFreeParams(1)),
                "node 2 frees memory of node 1",
            ),
            (
                GraphNode(2, NodeKind.MEM_FREE, MemFreeParams(9)),
                "node 2 frees memory of node 9",
            ),
            (GraphNode(2, NodeKind.KERNEL, None, ("graph-0.2",)), "of kind Kernel with bodies"),
            (
                GraphNode(
                    2,
                    NodeKind.CONDITIONAL,
                    ConditionalParams(ConditionalType.SWITCH, 3),
                    ("graph-0.2",),
                ),
                "node 2 with 1 bodies of 3",
            ),
            *(
                (
                    GraphNode(2, NodeKind.KERNEL, operands=operands),
                    "operands that are empty, out of order or overlapping",
                )
                for operands in (
                    (Operand(0, 0, 0),),
                    (Operand(1, 0, 8), Operand(0, 0, 8)),
                    (Operand(0, 0, 8), Operand(0, 7, 8)),
                )
            ),
        ],
    )
    def test_refused(self, bundle: Path, node: GraphNode, found: str) -> None:
        replace_graph(bundle, msgspec.structs.replace(GRAPH, nodes=(*GRAPH.nodes[:2], node)))
        assert found in refusal(bundle).found

    @pytest.mark.parametrize(
        "node",
        [
            GraphNode(2, NodeKind.MEM_FREE, MemFreeParams(None)),
            GraphNode(2, NodeKind.CONDITIONAL, ConditionalParams(ConditionalType.WHILE, 1)),
            GraphNode(2, NodeKind.CONDITIONAL, ConditionalParams(None, None)),
            GraphNode(2, NodeKind.CONDITIONAL),
            GraphNode(2, NodeKind.SEMAPHORE_SIGNAL, SemaphoreParams((0, 1), (0, (1 << 64) - 1))),
        ],
    )
    def test_read_as_written(self, bundle: Path, node: GraphNode) -> None:
        replace_graph(bundle, msgspec.structs.replace(GRAPH, nodes=(*GRAPH.nodes[:2], node)))
        assert read_bundle(bundle).graphs[0].nodes[2] == node

    def test_a_free_of_an_allocation(self, bundle: Path) -> None:
        pair = (
            GraphNode(0, NodeKind.MEM_ALLOC, MemAllocParams(1 << 20, 0)),
            GraphNode(1, NodeKind.MEM_FREE, MemFreeParams(0)),
        )
        graph = CapturedGraph(GRAPH.id, pair, (GraphEdge(0, 1),), "a test")
        replace_graph(bundle, graph)
        assert read_bundle(bundle).graphs == (graph,)


def _holding(graph: CapturedGraph, body: str) -> CapturedGraph:
    """``graph`` with the graph called ``body`` inside its last node."""
    *others, last = graph.nodes
    held = msgspec.structs.replace(last, kind=NodeKind.CHILD_GRAPH, bodies=(body,))
    return msgspec.structs.replace(graph, nodes=(*others, held))
