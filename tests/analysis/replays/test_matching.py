from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.replays.matching import (
    TURN_CONFIDENCE,
    GraphIdentities,
    number_executable_nodes,
)
from graphviz_dash.analysis.replays.replays import (
    BY_ID,
    BY_ORDER,
    METHODS,
    UNMATCHED,
    find_launch_order,
    match_replays,
)
from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphNode,
    NodeKind,
)
from graphviz_dash.model.node_ids import GraphIds
from tests.analysis.replays.known_replays import (
    check_invariants,
    line_rows,
    match_one,
)
from tests.analysis.replays.layers import in_steps, layers, node_id_pass
from tests.analysis.scenes import Scene, graph_of, kernel, memcpy, memset


class TestChain:
    def test_rows_by_start_are_the_nodes_in_order(self) -> None:
        graph = graph_of([memset(0), kernel(1), kernel(2), kernel(3, "other"), memcpy(4)])
        scene = Scene()
        scene.replay(graph, 100, line_rows([0, 1, 2, 3, 4]))
        scene.replay(graph, 1000, line_rows([0, 1, 2, 3, 4]))
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [0, 1, 2, 3, 4] * 2
        assert found.replay.tolist() == [0] * 5 + [1] * 5
        assert found.confidence.tolist() == [1.0] * 10
        assert {METHODS[m] for m in found.method} == {BY_ORDER}
        assert found.gpu_row.tolist() == list(range(10))
        assert found.start.tolist() == [0, 10, 20, 30, 40] * 2
        assert found.count_replays("graph-0") == 2
        assert found.get_samples("graph-0", 3).tolist() == [5, 5]
        assert found.get_samples("graph-9", 3).tolist() == []

    def test_nodes_without_a_row_and_edges_that_say_nothing_new_leave_a_chain(self) -> None:
        nodes = [kernel(0), GraphNode(1, NodeKind.EMPTY), kernel(2), kernel(3)]
        graph = graph_of(nodes, [(0, 1), (1, 2), (0, 2), (2, 3), (0, 3)])
        found = match_one(graph, line_rows([0, 2, 3]))
        assert found.node.tolist() == [0, 2, 3]
        assert {METHODS[m] for m in found.method} == {BY_ORDER}

    def test_a_row_that_is_missing(self) -> None:
        graph = graph_of([kernel(i, f"k{i % 4}") for i in range(12)])
        left = [i for i in range(12) if i != 5]
        found = match_one(graph, line_rows(left))
        assert found.node.tolist() == left
        assert set(found.confidence.tolist()) == {0.9}

    def test_a_row_that_is_missing_among_equal_ones_is_doubtful(self) -> None:
        graph = graph_of([kernel(i, "same" if 3 <= i < 6 else f"k{i}") for i in range(12)])
        found = match_one(graph, line_rows([0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]))
        assert found.confidence.tolist() == [0.9] * 3 + [0.5] * 2 + [0.9] * 6

    def test_a_row_that_is_new(self) -> None:
        graph = graph_of([kernel(i, f"k{i % 4}") for i in range(12)])
        scene = Scene()
        correlation = scene.replay(graph, 100, line_rows(list(range(12))))
        scene.work(kernel(0, "profiler's own"), 175, correlation)
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [*range(7), -1, *range(7, 12)]
        assert METHODS[found.method[7]] == UNMATCHED
        assert found.confidence[7] == 0.0

    @settings(max_examples=60)
    @given(st.lists(st.integers(0, 3), min_size=10, max_size=40), st.data())
    def test_one_row_dropped_or_doubled(self, names: list[int], data: st.DataObject) -> None:
        graph = graph_of([kernel(i, f"k{name}") for i, name in enumerate(names)])
        at = data.draw(st.integers(0, len(names) - 1))
        rows = list(range(len(names)))
        if data.draw(st.booleans()):
            rows.pop(at)
        else:
            rows.insert(at, rows[at])
        found = match_one(graph, line_rows(rows))
        check_invariants(graph, found, rows)
        assert found.matched_count == min(len(rows), len(names))


def holder(index: int, *bodies: str, kind: NodeKind = NodeKind.CHILD_GRAPH) -> GraphNode:
    return GraphNode(index, kind, None, bodies)


def inside(graph: CapturedGraph, parent: str, node: int) -> CapturedGraph:
    return msgspec.structs.replace(graph, parent=(parent, node))


class TestExecutableNumbers:
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


class TestWhichGraph:
    def test_each_launched_once_a_step_is_in_the_order_of_captures(self) -> None:
        found = match_replays(layers(), in_steps([[0, 1, 2], [0, 1, 2]]).trace())
        assert found.graph.tolist() == [0, 0, 1, 1, 2, 2] * 2
        assert set(found.confidence.tolist()) == {TURN_CONFIDENCE}

    def test_otherwise_turns_are_a_guess(self) -> None:
        found = match_replays(layers(), in_steps([[0, 1], [2, 0], [1, 2]]).trace())
        assert set(found.confidence.tolist()) == {1 / 3}

    def test_the_order_that_the_node_id_pass_saw_decides(self) -> None:
        known = GraphIdentities(order=("graph-2", "graph-0", "graph-0", "graph-1"))
        found = match_replays(layers(), in_steps([[2, 0, 0, 1]] * 2).trace(), known)
        assert found.graph.tolist() == [2, 2, 0, 0, 0, 0, 1, 1] * 2
        assert set(found.confidence.tolist()) == {1.0}

    def test_an_order_that_does_not_fit_is_not_used(self) -> None:
        known = GraphIdentities(order=("graph-2", "graph-0"))
        found = match_replays(layers(), in_steps([[0, 1, 2]] * 2).trace(), known)
        assert found.graph.tolist() == [0, 0, 1, 1, 2, 2] * 2
        assert set(found.confidence.tolist()) == {TURN_CONFIDENCE}

    def test_the_ids_of_executables_decide_where_it_is_known_whose_they_are(self) -> None:
        ids = tuple(GraphIds(f"graph-{i}", (20 - i,), (0, 1)) for i in range(3))
        scene = in_steps([[1, 0], [2, 2]], {0: 20, 1: 19, 2: 18})
        found = match_replays(layers(), scene.trace(), GraphIdentities(ids))
        assert found.graph.tolist() == [1, 1, 0, 0, 2, 2, 2, 2]
        assert {METHODS[m] for m in found.method} == {BY_ID}
        assert set(found.confidence.tolist()) == {1.0}

    def test_ids_of_nobody_knows_whom_follow_the_captures(self) -> None:
        scene = in_steps([[1, 0], [2, 2]], {0: 4, 1: 7, 2: 11})
        found = match_replays(layers(), scene.trace())
        assert found.graph.tolist() == [1, 1, 0, 0, 2, 2, 2, 2]
        assert set(found.confidence.tolist()) == {TURN_CONFIDENCE}

    def test_a_graph_of_one_node_has_the_id_zero(self) -> None:
        graph = graph_of([kernel(0)])
        scene = Scene()
        scene.work(graph.nodes[0], 110, scene.call("cudaGraphLaunch", 100), graph_id=3,
                   graph_node_id=0)  # fmt: skip
        found = match_replays(
            (graph,), scene.trace(), GraphIdentities((GraphIds("graph-0", (3,), (0,)),))
        )
        assert METHODS[found.method[0]] == BY_ID


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([[2, 0, 0], [2, 0, 0]], ("graph-2", "graph-0", "graph-0")),
        ([[0, 1], [1, 0]], ()),
        ([], ()),
    ],
)
def test_the_order_of_launches(steps: list[list[int]], expected: tuple[str, ...]) -> None:
    assert find_launch_order(node_id_pass(*steps)) == expected


def test_no_pass_and_unknown_ids_tell_no_order() -> None:
    assert find_launch_order(None) == ()
    assert find_launch_order(msgspec.structs.replace(node_id_pass([0]), graphs=())) == ()


class TestNodeIds:
    def _scene(self, ids: list[int], graph_half: int = 0) -> tuple[CapturedGraph, Scene]:
        graph = graph_of([kernel(i, "same") for i in range(4)], [])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        for place, ident in enumerate(ids):
            value = (graph_half << 32) | ident
            scene.work(graph.nodes[ident % 4], 110 + 10 * place, correlation, graph_node_id=value)
        return graph, scene

    @pytest.mark.parametrize("half", [0, 3, 2**31])
    def test_the_id_or_its_lower_half_is_the_node(self, half: int) -> None:
        graph, scene = self._scene([2, 0, 3, 1], half)
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [2, 0, 3, 1]
        assert {METHODS[m] for m in found.method} == {BY_ID}
        assert found.confidence.tolist() == [1.0] * 4

    def test_ids_that_disagree_with_names_are_not_believed(self) -> None:
        graph = graph_of([kernel(0, "a"), kernel(1, "b"), kernel(2, "c")])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        for place, ident in enumerate([2, 0, 1]):
            scene.work(graph.nodes[place], 110 + 10 * place, correlation, graph_node_id=ident)
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [0, 1, 2]
        assert {METHODS[m] for m in found.method} == {BY_ORDER}

    def test_zero_everywhere_is_no_id(self) -> None:
        graph = graph_of([kernel(0, "a"), kernel(1, "b")])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        for place, node in enumerate(graph.nodes):
            scene.work(node, 110 + 10 * place, correlation, graph_node_id=0)
        found = match_replays((graph,), scene.trace())
        assert {METHODS[m] for m in found.method} == {BY_ORDER}
