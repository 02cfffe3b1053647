from __future__ import annotations

import pytest

from graphviz_dash.analysis.replays.replays import (
    BY_ID,
    BY_ORDER,
    METHODS,
    match_replays,
)
from graphviz_dash.model.graph import (
    CapturedGraph,
)
from tests.analysis.scenes import Scene, graph_of, kernel


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
