"""Ids name nodes: how executables number them, and which graph a launch was of, ids or none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.analysis.nodes.node_table import build_node_table
from graphviz_dash.analysis.origins.attribution import attribute
from graphviz_dash.analysis.replays.alignment_accuracy import Miss, agreement
from graphviz_dash.analysis.replays.executable_numbering import executable_numbers
from graphviz_dash.analysis.replays.graph_chooser import IN_TURN, GraphIdentities, launch_order
from graphviz_dash.analysis.replays.node_id_trace import node_id_trace
from graphviz_dash.analysis.replays.replays import (
    BY_ID,
    BY_ORDER,
    METHODS,
    NODE_ID_PASS,
    ReplayMatch,
    match_replays,
    timed_replays,
)
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind
from graphviz_dash.model.marks import STEP
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass, NodeIdRow, NodeLook
from graphviz_dash.model.run import Run
from tests.analysis.scenes import Scene, graph_of, kernel, memset
from tests.bundle.examples import MANIFEST

LINE = [(0, 0, 5), (1, 10, 5)]


def holder(index: int, *bodies: str, kind: NodeKind = NodeKind.CHILD_GRAPH) -> GraphNode:
    return GraphNode(index, kind, None, bodies)


def inside(graph: CapturedGraph, parent: str, node: int) -> CapturedGraph:
    return msgspec.structs.replace(graph, parent=(parent, node))


class TestNumbers:
    """As recorded on an H200 with driver 580, cupti-python 13.0.1."""

    def test_a_plain_graph_is_numbered_in_creation_order(self) -> None:
        graph = graph_of([kernel(0), kernel(1)])
        assert executable_numbers(graph, {}) == {0: ("graph-0", 0), 1: ("graph-0", 1)}

    def test_a_removed_node_leaves_its_number_free(self) -> None:
        graph = graph_of([kernel(0), kernel(1), kernel(2)])
        found = executable_numbers(graph, {}, own=(0, 2, 3))
        assert found == {0: ("graph-0", 0), 2: ("graph-0", 1), 3: ("graph-0", 2)}

    def test_child_graphs_follow_in_the_order_of_their_nodes(self) -> None:
        root = graph_of([holder(0, "a"), holder(1, "b"), memset(2), holder(3, "c")])
        five = [kernel(i) for i in range(5)]
        by_id = {name: graph_of(five, name=name) for name in "abc"}
        found = executable_numbers(root, by_id)
        assert found[2] == ("graph-0", 2)
        assert [found[number] for number in (4, 8, 9, 13, 14, 18)] == [
            ("a", 0), ("a", 4), ("b", 0), ("b", 4), ("c", 0), ("c", 4)
        ]  # fmt: skip

    def test_what_child_graphs_hold_comes_after_them(self) -> None:
        root = graph_of([holder(0, "g"), memset(1)])
        by_id = {
            "g": graph_of([holder(0, "a"), holder(1, "b"), memset(2), holder(3, "c")], name="g"),
            **{name: graph_of([kernel(i) for i in range(5)], name=name) for name in "abc"},
        }
        found = executable_numbers(root, by_id)
        assert (found[1], found[4]) == (("graph-0", 1), ("g", 2))
        assert [found[number] for number in (6, 11, 16)] == [("a", 0), ("b", 0), ("c", 0)]

    def test_bodies_of_a_conditional_first_then_what_the_last_of_them_holds(self) -> None:
        root = graph_of([holder(0, "then", "else", kind=NodeKind.CONDITIONAL)])
        by_id = {
            "then": graph_of([memset(0), holder(1, "x")], name="then"),
            "else": graph_of([memset(0), holder(1, "y")], name="else"),
            **{name: graph_of([kernel(i) for i in range(5)], name=name) for name in "xy"},
        }
        found = executable_numbers(root, by_id)
        assert (found[1], found[3]) == (("then", 0), ("else", 0))
        assert (found[5], found[10]) == (("y", 0), ("x", 0))


def layers(count: int = 3) -> tuple[CapturedGraph, ...]:
    """Graphs that look the same."""
    return tuple(graph_of([kernel(0), kernel(1)], name=f"graph-{i}") for i in range(count))


def in_steps(launched: list[list[int]], exec_ids: dict[int, int] | None = None) -> Scene:
    """A trace of steps, each with launches of :func:`layers`, told apart by nothing else."""
    scene = Scene()
    graph = layers(1)[0]
    now = 100
    for step, numbers in enumerate(launched):
        begin = now
        for number in numbers:
            correlation = scene.call("cudaGraphLaunch", now)
            for node, start, duration in LINE:
                ids = {} if exec_ids is None else {"graph_id": exec_ids[number]}
                if exec_ids is not None:
                    ids["graph_node_id"] = node
                scene.work(graph.nodes[node], now + 5 + start, correlation, dur=duration, **ids)
            now += 100
        scene.mark(f"{STEP}{step}", begin, now - 1)
    return scene


class TestWhichGraph:
    def test_each_launched_once_a_step_is_in_the_order_of_captures(self) -> None:
        found = match_replays(layers(), in_steps([[0, 1, 2], [0, 1, 2]]).trace())
        assert found.graph.tolist() == [0, 0, 1, 1, 2, 2] * 2
        assert set(found.confidence.tolist()) == {IN_TURN}

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
        assert set(found.confidence.tolist()) == {IN_TURN}

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
        assert set(found.confidence.tolist()) == {IN_TURN}

    def test_a_graph_of_one_node_has_the_id_zero(self) -> None:
        graph = graph_of([kernel(0)])
        scene = Scene()
        scene.work(graph.nodes[0], 110, scene.call("cudaGraphLaunch", 100), graph_id=3,
                   graph_node_id=0)  # fmt: skip
        found = match_replays(
            (graph,), scene.trace(), GraphIdentities((GraphIds("graph-0", (3,), (0,)),))
        )
        assert METHODS[found.method[0]] == BY_ID


KERNEL = NodeLook("kernel", "k", (1, 1, 1), (128, 1, 1), 16, 32, None)


def a_pass(*steps: list[int]) -> NodeIdPass:
    """Steps that launch :func:`layers` by number; their executables are 10, 11, ..."""
    rows: list[NodeIdRow] = []
    launch_steps: list[int] = []
    now = 0
    for step, numbers in enumerate(steps):
        for number in numbers:
            for node in (0, 1):
                rows.append(NodeIdRow(len(launch_steps), 10 + number, node, 0, 0, 7, now, 5))
                now += 10
            launch_steps.append(step)
    ids = tuple(GraphIds(graph.id, (10 + i,), (0, 1)) for i, graph in enumerate(layers()))
    return NodeIdPass("a test", len(steps), 0, 0, ids, (KERNEL,), tuple(launch_steps), tuple(rows))


class TestThePassAsATrace:
    def test_with_ids_every_row_is_named(self) -> None:
        found = a_pass([2, 0], [1, 0])
        matched = match_replays(layers(), node_id_trace(found), GraphIdentities(found.graphs))
        assert matched.graph.tolist() == [2, 2, 0, 0, 1, 1, 0, 0]
        assert matched.node.tolist() == [0, 1] * 4
        assert {METHODS[m] for m in matched.method} == {BY_ID}

    def test_hidden_ids_leave_it_to_the_alignment(self) -> None:
        trace = node_id_trace(a_pass([0, 1, 2], [0, 1, 2]), with_ids=False)
        assert trace.gpu["graph_id"].null_count() == len(trace.gpu)
        matched = match_replays(layers(), trace)
        assert {METHODS[m] for m in matched.method} == {BY_ORDER}
        assert matched.graph.tolist() == [0, 0, 1, 1, 2, 2] * 2

    def test_steps_and_launches_are_in_the_order_of_the_calls(self) -> None:
        found = a_pass([0, 1], [2])
        late = msgspec.structs.replace(found.rows[0], start_ns=15)
        found = msgspec.structs.replace(found, rows=(late, *found.rows[1:]))
        trace = node_id_trace(found)
        assert trace.runtime["ts"].is_sorted()
        assert trace.runtime["correlation"].to_list() == [0, 1, 2]
        assert trace.annotations["name"].to_list() == [f"{STEP}0", f"{STEP}1"]

    def test_a_pass_without_rows(self) -> None:
        trace = node_id_trace(NodeIdPass("a test", 3, 0, 7, (), (), (), ()))
        assert len(trace.gpu) == len(trace.runtime) == len(trace.annotations) == 0
        assert match_replays(layers(), trace).matched == 0


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([[2, 0, 0], [2, 0, 0]], ("graph-2", "graph-0", "graph-0")),
        ([[0, 1], [1, 0]], ()),
        ([], ()),
    ],
)
def test_the_order_of_launches(steps: list[list[int]], expected: tuple[str, ...]) -> None:
    assert launch_order(a_pass(*steps)) == expected


def test_no_pass_and_unknown_ids_tell_no_order() -> None:
    assert launch_order(None) == ()
    assert launch_order(msgspec.structs.replace(a_pass([0]), graphs=())) == ()


class TestAgreement:
    def _run(self, found: NodeIdPass, graphs: tuple[CapturedGraph, ...]) -> Run:
        return Run(path=Path("run"), manifest=MANIFEST, graphs=graphs, node_ids=found)

    def test_without_a_pass_there_is_nothing_to_compare(self) -> None:
        run = Run(path=Path("run"), manifest=MANIFEST, graphs=layers())
        assert agreement(run) is None

    def test_launches_in_the_order_of_captures_agree(self) -> None:
        found = agreement(self._run(a_pass([0, 1, 2], [0, 1, 2]), layers()))
        assert found is not None
        assert (found.rows, found.agreeing, found.share) == (12, 12, 1.0)
        assert found.by_confidence == {IN_TURN: (12, 12)}
        assert found.by_method == {BY_ORDER: (12, 12)}
        assert (found.misses, found.unnamed, found.fork_join) == ({}, 0, False)

    def test_launches_in_another_order_are_misses_with_their_cause(self) -> None:
        found = agreement(self._run(a_pass([1, 0, 2], [1, 0, 2]), layers()))
        assert found is not None
        assert (found.rows, found.agreeing) == (12, 4)
        assert found.by_confidence == {IN_TURN: (12, 4)}
        assert found.misses == {Miss.GRAPH: 8}

    def test_parallel_branches_that_look_the_same_are_told_as_such(self) -> None:
        graph = graph_of([kernel(0), kernel(1)], [])
        rows = tuple(
            NodeIdRow(0, 10, node, 0, 0, stream, start, 5)
            for node, stream, start in ((1, 7, 0), (0, 13, 1))
        )
        ids = (GraphIds("graph-0", (10,), (0, 1)),)
        found = agreement(self._run(NodeIdPass("t", 1, 0, 0, ids, (KERNEL,), (0,), rows), (graph,)))
        assert found is not None
        assert (found.rows, found.agreeing, found.fork_join) == (2, 0, True)
        assert found.by_confidence == {0.9: (2, 0)}
        assert found.misses == {Miss.TWIN: 2}

    def test_ids_of_nodes_that_look_different_are_not_compared(self) -> None:
        other = msgspec.structs.replace(a_pass([0]), looks=(NodeLook(
            "kernel", "another", (1, 1, 1), (128, 1, 1), 16, 32, None),))  # fmt: skip
        found = agreement(self._run(other, layers()))
        assert found is not None
        assert (found.rows, found.share, found.unnamed) == (0, None, 2)


class TestTimes:
    def _run(self, found: NodeIdPass | None) -> tuple[Run, ReplayMatch]:
        run = Run(path=Path("run"), manifest=MANIFEST, graphs=layers(), node_ids=found)
        return run, match_replays(layers(), in_steps([[1, 0], [2, 0]]).trace())

    def test_the_node_id_pass_where_the_traced_pass_is_in_doubt(self) -> None:
        run, traced = self._run(a_pass([1, 0, 2]))
        chosen = timed_replays(run, traced)
        assert chosen is not None
        assert chosen.source == NODE_ID_PASS
        assert set(chosen.confidence.tolist()) == {1.0}

    def test_the_traced_pass_where_there_is_no_other_or_no_doubt(self) -> None:
        run, traced = self._run(None)
        assert timed_replays(run, traced) is traced
        known = GraphIdentities(order=("graph-1", "graph-0", "graph-2"))
        sure = match_replays(layers(), in_steps([[1, 0, 2]]).trace(), known)
        run, _ = self._run(a_pass([1, 0, 2]))
        assert timed_replays(run, sure) is sure

    def test_the_node_id_pass_where_there_is_no_trace(self) -> None:
        run, _ = self._run(a_pass([1, 0, 2]))
        chosen = timed_replays(run, None)
        assert chosen is not None
        assert chosen.source == NODE_ID_PASS
        table = build_node_table(run.graphs[1], attribute(run.graphs[1], None), chosen, run.graphs)
        assert (table.timed_in, table.replays) == (NODE_ID_PASS, 1)
        assert [row.times.timed_in for row in table.rows] == [NODE_ID_PASS] * 2
        assert timed_replays(self._run(None)[0], None) is None
