from __future__ import annotations

import msgspec
import pytest

from graphviz_dash.analysis.replays.matching import (
    TURN_CONFIDENCE,
    GraphIdentities,
    find_launch_order,
)
from graphviz_dash.analysis.replays.replays import (
    BY_ID,
    METHODS,
    match_replays,
)
from graphviz_dash.model.node_ids import GraphIds
from tests.analysis.replays.layers import in_steps, layers, node_id_pass
from tests.analysis.scenes import Scene, graph_of, kernel


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
