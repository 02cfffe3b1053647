from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

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
from tests.analysis.scenes import Scene, graph_of, kernel, memcpy
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


COPIES = graph_of([memcpy(0, 512), kernel(1, "a"), memcpy(2, 512), memcpy(3, 512), kernel(4, "b")])
"""A trace can show a captured copy as two rows of the full size (pytorch issue 191284)."""


def replay_copies(rows: list[tuple[int, int]]) -> Scene:
    """A replay of ``COPIES`` whose rows are (node, start); each lasts 5 ns on stream 7."""
    scene = Scene()
    scene.replay(COPIES, 100, [(node, start, 7) for node, start in rows])
    return scene


def test_two_rows_of_a_copy_are_one_node_with_their_time() -> None:
    pairs = [(0, 0), (0, 6), (1, 20), (2, 30), (2, 37), (3, 50), (3, 55), (4, 70)]
    match = match_replays((COPIES,), replay_copies(pairs).trace())
    assert match.node.tolist() == [0, 1, 2, 3, 4]
    assert match.duration.tolist() == [11, 5, 12, 10, 5]
    assert set(match.confidence.tolist()) == {1.0}


def test_a_copy_of_one_row_stays_as_it_is() -> None:
    mixed = [(0, 0), (1, 20), (2, 30), (2, 37), (3, 50), (3, 55), (4, 70)]
    match = match_replays((COPIES,), replay_copies(mixed).trace())
    assert match.node.tolist() == [0, 1, 2, 3, 4]
    assert match.duration.tolist() == [5, 5, 12, 10, 5]


@pytest.mark.parametrize("missing", [0, 2])
def test_equal_copies_of_single_rows_are_not_merged(missing: int) -> None:
    rows = [(0, 0), (1, 20), (2, 30), (3, 37), (4, 70)]
    match = match_replays((COPIES,), replay_copies(rows[missing and 1 :]).trace())
    assert np.count_nonzero(match.node >= 0) == len(rows) - (missing > 0)
    assert set(match.duration.tolist()) == {5}


def test_copies_on_two_streams_are_no_pair() -> None:
    scene = Scene()
    rows = [(0, 0, 7), (0, 1, 8), (1, 20, 7), (2, 30, 7), (3, 9_000, 8), (4, 9_000, 7)]
    scene.replay(COPIES, 100, rows)
    assert set(match_replays((COPIES,), scene.trace()).duration.tolist()) == {5}


def test_copies_with_the_size_of_another_graph_match_by_their_place() -> None:
    scene = replay_copies([(0, 0), (1, 20), (2, 30), (3, 50), (4, 70)])
    for row in scene.gpu:
        if row["kind"] == "memcpy":
            row["bytes"] = 1 << 29
    match = match_replays((COPIES,), scene.trace())
    assert match.node.tolist() == [0, 1, 2, 3, 4]
    assert set(match.confidence.tolist()) == {1.0}


def test_a_copy_with_the_size_of_another_graph_matches_its_own() -> None:
    """As on an H100 with CUPTI 13.0: the copy of 4 KiB reports the 1 MiB of the second graph."""
    first = graph_of([memcpy(0, 4096), kernel(1, "a")])
    second = replace(graph_of([kernel(0, "b"), memcpy(1, 1 << 20)]), id="graph-1")
    scene = Scene()
    for at in range(0, 4000, 1000):
        scene.replay(first, 100 + at, [(0, 0, 7), (1, 20, 7)])
        scene.replay(second, 500 + at, [(0, 0, 7), (1, 20, 7)])
    for row in scene.gpu:
        if row["kind"] == "memcpy":
            row["bytes"] = 1 << 20
    match = match_replays((first, second), scene.trace())
    assert match.matched_count == len(match.node)
