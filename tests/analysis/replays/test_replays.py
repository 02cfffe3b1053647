from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.analysis.nodes.node_table import build_node_table
from graphviz_dash.analysis.replays.matching import GraphIdentities
from graphviz_dash.analysis.replays.replays import (
    NODE_ID_PASS,
    ReplayMatch,
    match_replays,
    select_timed_replays,
)
from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphEdge,
    GraphNode,
    NodeKind,
)
from graphviz_dash.model.node_ids import NodeIdPass
from graphviz_dash.model.run import Run
from tests.analysis.replays.known_replays import line_rows
from tests.analysis.replays.layers import in_steps, layers, node_id_pass
from tests.analysis.scenes import Scene, graph_of, kernel
from tests.bundle.examples import MANIFEST


class TestSeveralGraphs:
    def test_by_what_their_rows_look_like(self) -> None:
        forward = graph_of([kernel(0, "a"), kernel(1, "b")], name="forward")
        backward = graph_of([kernel(0, "b"), kernel(1, "c"), kernel(2, "c")], name="backward")
        scene = Scene()
        for step in (100, 1000):
            scene.replay(forward, step, line_rows([0, 1]))
            scene.replay(backward, step + 300, line_rows([0, 1, 2]))
        found = match_replays((forward, backward), scene.trace())
        assert found.graph.tolist() == [0, 0, 1, 1, 1] * 2
        assert found.node.tolist() == [0, 1, 0, 1, 2] * 2
        assert found.count_replays("forward") == found.count_replays("backward") == 2

    def test_graphs_alike_take_turns_and_are_not_certain(self) -> None:
        layers = tuple(graph_of([kernel(0), kernel(1)], name=f"layer-{i}") for i in range(2))
        scene = Scene()
        for start in (100, 300, 500, 700):
            scene.replay(layers[0], start, line_rows([0, 1]))
        found = match_replays(layers, scene.trace())
        assert found.graph.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
        assert set(found.confidence.tolist()) == {0.5}

    def test_a_graph_that_was_not_captured_stays_unmatched(self) -> None:
        scene = Scene()
        scene.replay(graph_of([kernel(0, "x"), kernel(1, "y")]), 100, line_rows([0, 1]))
        found = match_replays((graph_of([kernel(0, "a")]),), scene.trace())
        assert found.graph.tolist() == found.node.tolist() == [-1, -1]
        assert found.confidence.tolist() == [0.0, 0.0]
        assert found.matched_count == 0

    def test_no_graph_and_no_launch(self) -> None:
        graph = graph_of([kernel(0)])
        assert len(match_replays((), Scene().trace()).node) == 0
        assert len(match_replays((graph,), Scene().trace()).node) == 0
        scene = Scene()
        scene.call("cudaGraphLaunch", 100)
        assert match_replays((graph,), scene.trace()).count_replays("graph-0") == 0

    def test_a_child_graph_runs_in_place_of_its_node(self) -> None:
        holder = GraphNode(1, NodeKind.CHILD_GRAPH, None, ("graph-0.1",))
        outer = graph_of([kernel(0, "a"), holder, kernel(2, "b")])
        inner = CapturedGraph(
            "graph-0.1",
            (kernel(0, "a"), kernel(1, "c")),
            (GraphEdge(0, 1),),
            "a test",
            ("graph-0", 1),
        )
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        for place, node in enumerate((outer.nodes[0], *inner.nodes, outer.nodes[2])):
            scene.work(node, 110 + 10 * place, correlation)
        found = match_replays((outer, inner), scene.trace())
        assert [found.graphs[g] for g in found.graph] == [
            "graph-0",
            "graph-0.1",
            "graph-0.1",
            "graph-0",
        ]
        assert found.node.tolist() == [0, 0, 1, 2]
        assert found.confidence.tolist() == [1.0] * 4
        assert found.count_replays("graph-0.1") == 1


class TestTimes:
    def _run(self, found: NodeIdPass | None) -> tuple[Run, ReplayMatch]:
        run = Run(path=Path("run"), manifest=MANIFEST, graphs=layers(), node_ids=found)
        return run, match_replays(layers(), in_steps([[1, 0], [2, 0]]).trace())

    def test_the_node_id_pass_where_the_traced_pass_is_in_doubt(self) -> None:
        run, traced = self._run(node_id_pass([1, 0, 2]))
        chosen = select_timed_replays(run, traced)
        assert chosen is not None
        assert chosen.source == NODE_ID_PASS
        assert set(chosen.confidence.tolist()) == {1.0}

    def test_the_traced_pass_where_there_is_no_other_or_no_doubt(self) -> None:
        run, traced = self._run(None)
        assert select_timed_replays(run, traced) is traced
        known = GraphIdentities(order=("graph-1", "graph-0", "graph-2"))
        sure = match_replays(layers(), in_steps([[1, 0, 2]]).trace(), known)
        run, _ = self._run(node_id_pass([1, 0, 2]))
        assert select_timed_replays(run, sure) is sure

    def test_the_node_id_pass_where_there_is_no_trace(self) -> None:
        run, _ = self._run(node_id_pass([1, 0, 2]))
        chosen = select_timed_replays(run, None)
        assert chosen is not None
        assert chosen.source == NODE_ID_PASS
        table = build_node_table(run.graphs[1], attribute_graph(run.graphs[1]), chosen, run.graphs)
        assert (table.timed_in, table.replays) == (NODE_ID_PASS, 1)
        assert [row.times.timed_in for row in table.rows] == [NODE_ID_PASS] * 2
        assert select_timed_replays(self._run(None)[0], None) is None
