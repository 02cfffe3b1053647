from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.replays.replays import (
    BY_ORDER,
    METHODS,
    UNMATCHED,
    match_replays,
)
from graphviz_dash.model.graph import (
    GraphNode,
    NodeKind,
)
from tests.analysis.replays.known_replays import (
    check_invariants,
    line_rows,
    match_one,
)
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
