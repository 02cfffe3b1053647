"""A graph over its replays: times, gaps, concurrency, and what its edges are good for."""

from __future__ import annotations

import numpy as np
import pytest

from graphviz_dash.analysis.graph.topology import visible_edges
from graphviz_dash.analysis.nodes.concurrency import graph_concurrency, run_concurrency
from graphviz_dash.analysis.nodes.measured_graph import NOT_SEEN, MeasuredGraph, measure_graph
from graphviz_dash.analysis.nodes.needless_edges import needless_edges
from graphviz_dash.analysis.nodes.node_table import node_table
from graphviz_dash.analysis.origins.origins import NodeOrigin
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind, Operand
from graphviz_dash.narrative.concurrency import concurrency_sentences
from tests.analysis.frames import make_run
from tests.analysis.scenes import Scene, graph_of, kernel

# A fork into two branches and a join, with an event between.
FORK = graph_of(
    [kernel(0, "a"), kernel(1, "b"), kernel(2, "c"), GraphNode(3, NodeKind.EMPTY), kernel(4, "d")],
    [(0, 1), (0, 2), (1, 3), (3, 4), (2, 4)],
)


def _measured(graph: CapturedGraph, scene: Scene) -> MeasuredGraph:
    found = measure_graph(graph, (graph,), match_replays((graph,), scene.trace()))
    assert isinstance(found, MeasuredGraph)
    return found


def _replay(scene: Scene, start: int, times: dict[int, tuple[int, int, int]]) -> None:
    """One launch; by node its start, duration and stream."""
    correlation = scene.call("cudaGraphLaunch", start)
    for node, (begin, took, stream) in times.items():
        scene.work(FORK.nodes[node], start + begin, correlation, dur=took, stream=stream)


def _forked() -> MeasuredGraph:
    scene = Scene()
    for place, late in enumerate((0, 2, 4)):
        begin = 1000 * (place + 1)
        _replay(
            scene,
            begin,
            {0: (10, 10, 7), 1: (25, 40, 7), 2: (22, 20, 9), 4: (70 + late, 10, 7)},
        )
    return _measured(FORK, scene)


def test_times_path_and_slack() -> None:
    found = _forked()
    assert found.replays == 3
    assert found.p50.tolist() == [10, 40, 20, NOT_SEEN, 10]
    assert found.path.nodes == (0, 1, 4)
    assert found.path.length == 60
    assert found.slack.tolist() == [0, 0, 20, NOT_SEEN, 0]
    assert found.work_ns == 80
    assert found.span_ns == 72
    assert found.available == pytest.approx(80 / 60)
    assert found.streams == 2
    assert [(one.streams, one.length) for one in found.schedules] == [(1, 80), (2, 60)]


def test_gaps_and_what_is_lost() -> None:
    found = _forked()
    gaps = {(edge.source, edge.target): (edge.gap_ns, edge.lost_ns) for edge in found.edges}
    # The join waits for the longer branch: what lies between it and the shorter one is not lost.
    assert gaps == {(0, 1): (5, 5), (0, 2): (2, 2), (1, 4): (7, 7), (2, 4): (30, 0)}
    assert found.lost_ns == 12


def test_busy_time_counts_overlaps_once() -> None:
    found = _forked()
    # 10 for the first, 43 from 22 to 65, 10 for the last.
    assert found.busy_ns == 63
    assert found.achieved == pytest.approx(80 / 63)


def test_a_replay_that_lacks_a_node_is_left_out() -> None:
    scene = Scene()
    whole = {0: (10, 10, 7), 1: (25, 40, 7), 2: (22, 20, 9), 4: (70, 10, 7)}
    for start in (1000, 2000, 3000):
        _replay(scene, start, whole)
    _replay(scene, 4000, {node: one for node, one in whole.items() if node != 2})
    found = _measured(FORK, scene)
    assert found.replays == 3


def test_without_replays_it_says_so() -> None:
    said = measure_graph(FORK, (FORK,), None)
    assert said == Missing(Fact.NODE_TIMES, "there is no trace of replays")
    found = measure_graph(FORK, (FORK,), match_replays((FORK,), Scene().trace()))
    assert found == Missing(Fact.NODE_TIMES, "no replay of this graph was found in the trace")


def test_edges_are_drawn_through_what_is_not_seen() -> None:
    seen = np.array([True, True, True, False, True])
    assert visible_edges(FORK, seen).tolist() == [[0, 1], [0, 2], [1, 4], [2, 4]]


def _origin(op: str, backward: str, dims: str) -> NodeOrigin:
    path = (f"autograd::engine::evaluate_function: {backward}", backward, op)
    return NodeOrigin("t", 1.0, op=op, op_path=path, input_dims=dims, module="m")


def test_the_parts_of_a_products_backward_need_not_follow_each_other() -> None:
    origins = [
        None,
        _origin("aten::mm", "AddmmBackward0", "[[2,3],[3,4]]"),
        _origin("aten::mm", "AddmmBackward0", "[[4,2],[2,3]]"),
        _origin("aten::sum", "AddmmBackward0", "[[2,3]]"),
        None,
    ]
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 4)])
    found = needless_edges(edges, np.array([1, 10, 20, 5, 1]), origins)
    assert found.edges == ((1, 2), (2, 3))
    assert [group.parts for group in found.groups] == [((1,), (2,), (3,))]
    assert found.path_ns == 1 + 20 + 1


def _line(*offsets: int | None) -> CapturedGraph:
    """Kernels in a line, each with 8 bytes of memory at its offset; None: it does not tell."""
    return graph_of(
        [
            GraphNode(at, NodeKind.KERNEL, operands=None if one is None else (Operand(0, one, 8),))
            for at, one in enumerate(offsets)
        ]
    )


def test_nodes_without_memory_in_common_need_not_follow_each_other() -> None:
    edges = np.array([(0, 1), (1, 2), (2, 3)])
    found = needless_edges(edges, np.array([10, 20, 5, 1]), [None] * 4, _line(0, 64, 0, 64))
    assert found.edges == ((0, 1), (1, 2), (2, 3))
    assert (found.by_meaning, found.unknown) == (0, 0)
    assert found.path_ns == 20 + 1


def test_memory_and_meaning_tell_together() -> None:
    origins = [
        None,
        _origin("aten::mm", "AddmmBackward0", "[[2,3],[3,4]]"),
        _origin("aten::mm", "AddmmBackward0", "[[4,2],[2,3]]"),
        None,
        None,
    ]
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 4)])
    graph = _line(0, 0, 0, 64, None)
    found = needless_edges(edges, np.array([1, 10, 20, 50, 2]), origins, graph)
    assert found.edges == ((1, 2), (2, 3))
    assert (found.by_meaning, found.unknown) == (1, 1)
    assert found.path_ns == 50 + 2


def test_what_the_trace_does_not_show_still_keeps_the_order() -> None:
    """A call on the CPU between two kernels that share nothing."""
    graph = _line(0, None, 64)
    found = needless_edges(np.array([(0, 2)]), np.array([10, NOT_SEEN, 5]), [None] * 3, graph)
    assert found.edges == ()
    assert found.path_ns == 15


def test_two_kernels_of_one_product_stay_in_order() -> None:
    """Split products: nothing but the shapes tells two kernels of one from two products."""
    origins = [_origin("aten::mm", "MmBackward0", "[[2,3],[3,4]]")] * 2
    found = needless_edges(np.array([(0, 1)]), np.array([10, 5]), origins)
    assert found.edges == ()
    assert found.path_ns == 15


def test_other_operators_say_nothing() -> None:
    origins = [
        _origin("aten::mul", "MulBackward0", "[[2]]"),
        _origin("aten::mul", "MulBackward0", "[[3]]"),
    ]
    assert needless_edges(np.array([(0, 1)]), np.array([1, 1]), origins).groups == ()


def test_a_run_without_a_trace_says_so_of_each_graph() -> None:
    run = make_run("graph", graphs=(FORK,), trace=None)
    found = run_concurrency(run, [node_table(run, "graph-0")])
    assert found == {"graph-0": Missing(Fact.NODE_TIMES, "there is no trace of replays")}


def test_of_a_graph_of_one_node_nothing_is_said_of_dependencies() -> None:
    graph = graph_of([kernel(0, "a")], [])
    scene = Scene()
    for start in (1000, 2000):
        scene.work(graph.nodes[0], start + 10, scene.call("cudaGraphLaunch", start), dur=30)
    measured = _measured(graph, scene)
    run = make_run("graph", graphs=(graph,))
    found = graph_concurrency(measured, {"graph-0": node_table(run, "graph-0")})
    assert concurrency_sentences(found) == (
        "The graph is one node, which nothing waits for. A replay took 30 ns from its first "
        "start to its last end (median of 2 replays of the traced pass).",
    )


def test_sentences() -> None:
    measured = _forked()
    run = make_run("graph", graphs=(FORK,))
    found = graph_concurrency(measured, {"graph-0": node_table(run, "graph-0")})
    said = concurrency_sentences(found)
    assert "critical path takes 60 ns, over 3 of 4 nodes" in said[0]
    assert "1.33x run at once" in said[1]
    assert "reaches the critical path on 2 streams; it takes 80 ns on 1" in said[1]
    assert "12 ns are lost" in said[2]
    assert "shows no edge that is without need" in said[3]
