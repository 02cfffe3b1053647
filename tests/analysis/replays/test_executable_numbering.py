from __future__ import annotations

import msgspec

from graphviz_dash.analysis.replays.matching import number_executable_nodes
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind
from tests.analysis.scenes import graph_of, kernel, memset


def holder(index: int, *bodies: str, kind: NodeKind = NodeKind.CHILD_GRAPH) -> GraphNode:
    return GraphNode(index, kind, None, bodies)


def inside(graph: CapturedGraph, parent: str, node: int) -> CapturedGraph:
    return msgspec.structs.replace(graph, parent=(parent, node))


class TestNumbers:
    """As recorded on an H200 with driver 580, cupti-python 13.0.1."""

    def test_a_plain_graph_is_numbered_in_creation_order(self) -> None:
        graph = graph_of([kernel(0), kernel(1)])
        assert number_executable_nodes(graph, {}) == {0: ("graph-0", 0), 1: ("graph-0", 1)}

    def test_a_removed_node_leaves_its_number_free(self) -> None:
        graph = graph_of([kernel(0), kernel(1), kernel(2)])
        found = number_executable_nodes(graph, {}, root_numbers=(0, 2, 3))
        assert found == {0: ("graph-0", 0), 2: ("graph-0", 1), 3: ("graph-0", 2)}

    def test_child_graphs_follow_in_the_order_of_their_nodes(self) -> None:
        root = graph_of([holder(0, "a"), holder(1, "b"), memset(2), holder(3, "c")])
        five = [kernel(i) for i in range(5)]
        by_id = {name: graph_of(five, name=name) for name in "abc"}
        found = number_executable_nodes(root, by_id)
        assert found[2] == ("graph-0", 2)
        assert [found[number] for number in (4, 8, 9, 13, 14, 18)] == [
            ("a", 0), ("a", 4), ("b", 0), ("b", 4), ("c", 0), ("c", 4)
        ]  # fmt: skip

    def test_nodes_of_child_graphs_are_numbered_after_their_parent(self) -> None:
        root = graph_of([holder(0, "g"), memset(1)])
        by_id = {
            "g": graph_of([holder(0, "a"), holder(1, "b"), memset(2), holder(3, "c")], name="g"),
            **{name: graph_of([kernel(i) for i in range(5)], name=name) for name in "abc"},
        }
        found = number_executable_nodes(root, by_id)
        assert (found[1], found[4]) == (("graph-0", 1), ("g", 2))
        assert [found[number] for number in (6, 11, 16)] == [("a", 0), ("b", 0), ("c", 0)]

    def test_bodies_of_a_conditional_first_then_what_the_last_of_them_holds(self) -> None:
        root = graph_of([holder(0, "then", "else", kind=NodeKind.CONDITIONAL)])
        by_id = {
            "then": graph_of([memset(0), holder(1, "x")], name="then"),
            "else": graph_of([memset(0), holder(1, "y")], name="else"),
            **{name: graph_of([kernel(i) for i in range(5)], name=name) for name in "xy"},
        }
        found = number_executable_nodes(root, by_id)
        assert (found[1], found[3]) == (("then", 0), ("else", 0))
        assert (found[5], found[10]) == (("y", 0), ("x", 0))
