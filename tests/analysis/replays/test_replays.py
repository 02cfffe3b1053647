"""Rows of replays to nodes of graphs, on replays whose truth is known."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.replays.replays import (
    BY_BRANCH,
    BY_ID,
    BY_ORDER,
    METHODS,
    UNMATCHED,
    ReplayMatch,
    match_replays,
)
from graphviz_dash.analysis.trace.signatures import normalised
from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphEdge,
    GraphNode,
    KernelParams,
    NodeKind,
)
from tests.analysis.scenes import Scene, graph_of, kernel, memcpy, memset

Line = list[tuple[int, int, int]]


def _line(nodes: list[int]) -> Line:
    """Rows of a replay on one stream."""
    return [(node, 10 * place, 7) for place, node in enumerate(nodes)]


def _match(graph: CapturedGraph, rows: Line) -> ReplayMatch:
    scene = Scene()
    scene.replay(graph, 100, rows)
    return match_replays((graph,), scene.trace())


class TestChain:
    def test_rows_by_start_are_the_nodes_in_order(self) -> None:
        graph = graph_of([memset(0), kernel(1), kernel(2), kernel(3, "other"), memcpy(4)])
        scene = Scene()
        scene.replay(graph, 100, _line([0, 1, 2, 3, 4]))
        scene.replay(graph, 1000, _line([0, 1, 2, 3, 4]))
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [0, 1, 2, 3, 4] * 2
        assert found.replay.tolist() == [0] * 5 + [1] * 5
        assert found.confidence.tolist() == [1.0] * 10
        assert {METHODS[m] for m in found.method} == {BY_ORDER}
        assert found.gpu_row.tolist() == list(range(10))
        assert found.start.tolist() == [0, 10, 20, 30, 40] * 2
        assert found.replays_of("graph-0") == 2
        assert found.samples("graph-0", 3).tolist() == [5, 5]
        assert found.samples("graph-9", 3).tolist() == []

    def test_nodes_without_a_row_and_edges_that_say_nothing_new_leave_a_chain(self) -> None:
        nodes = [kernel(0), GraphNode(1, NodeKind.EMPTY), kernel(2), kernel(3)]
        graph = graph_of(nodes, [(0, 1), (1, 2), (0, 2), (2, 3), (0, 3)])
        found = _match(graph, _line([0, 2, 3]))
        assert found.node.tolist() == [0, 2, 3]
        assert {METHODS[m] for m in found.method} == {BY_ORDER}

    def test_a_row_that_is_missing(self) -> None:
        graph = graph_of([kernel(i, f"k{i % 4}") for i in range(12)])
        left = [i for i in range(12) if i != 5]
        found = _match(graph, _line(left))
        assert found.node.tolist() == left
        assert set(found.confidence.tolist()) == {0.9}

    def test_a_row_that_is_missing_among_equal_ones_is_doubtful(self) -> None:
        graph = graph_of([kernel(i, "same" if 3 <= i < 6 else f"k{i}") for i in range(12)])
        found = _match(graph, _line([0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]))
        assert found.confidence.tolist() == [0.9] * 3 + [0.5] * 2 + [0.9] * 6

    def test_a_row_that_is_new(self) -> None:
        graph = graph_of([kernel(i, f"k{i % 4}") for i in range(12)])
        scene = Scene()
        correlation = scene.replay(graph, 100, _line(list(range(12))))
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
        found = _match(graph, _line(rows))
        _check_invariants(graph, found, rows)
        assert found.matched == min(len(rows), len(names))


class TestSignature:
    def test_grid_block_and_shared_memory_tell_kernels_of_one_name_apart(self) -> None:
        graph = graph_of([kernel(0, grid=1), kernel(1, grid=2)], [])
        found = _match(graph, _line([1, 0]))
        assert found.node.tolist() == [1, 0]
        assert found.confidence.tolist() == [1.0, 1.0]

    def test_without_static_shared_memory_the_sum_is_not_compared(self) -> None:
        graph = graph_of([kernel(0, static=None), kernel(1, "b", static=None)])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        for index, node in enumerate(graph.nodes):
            scene.work(node, 110 + 10 * index, correlation, shared=9999)
        assert match_replays((graph,), scene.trace()).node.tolist() == [0, 1]

    def test_another_amount_of_shared_memory_is_another_kernel(self) -> None:
        graph = graph_of([kernel(0, static=8), kernel(1, "b")])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        scene.work(graph.nodes[0], 110, correlation, shared=16)
        scene.work(graph.nodes[1], 120, correlation)
        assert match_replays((graph,), scene.trace()).node.tolist() == [-1, 1]

    def test_copies_and_sets_by_their_bytes(self) -> None:
        graph = graph_of([memcpy(0, 8), memcpy(1, 16), memset(2, 8)], [])
        assert _match(graph, _line([2, 1, 0])).node.tolist() == [2, 1, 0]

    def test_small_copies_that_the_driver_does_by_kernels_of_its_own(self) -> None:
        graph = graph_of([kernel(0), memcpy(1, 8), memcpy(2, 4), memset(3), kernel(4, "z")])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        for place, name in enumerate(["k", "memcpy32_post", "memcpy32_post", "memset32", "z"]):
            node = graph.nodes[place] if place in (0, 4) else kernel(place, name)
            scene.work(node, 110 + 10 * place, correlation)
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("traced", "captured"),
        [
            ("void f<(int)4, (bool)1>(float const*)", "void f<4, 1>(float const*)"),
            ("void f<3ul>(char const*)", "void f<3>(const char*)"),
            ("void (anonymous namespace)::f<int>()", "void <unnamed>::f<int>()"),
            ("void f(int) [clone .kd]", "void f(int)"),
        ],
    )
    def test_demanglers_differ(self, traced: str, captured: str) -> None:
        assert normalised(traced) == normalised(captured)
        assert normalised("void f1<3>(int)") != normalised("void f<3>(int)")

    def test_a_mangled_name_in_the_trace(self) -> None:
        graph = graph_of([kernel(0, "a"), kernel(1, "b")])
        scene = Scene()
        correlation = scene.call("hipGraphLaunch", 100)
        for index, node in enumerate(graph.nodes):
            assert isinstance(node.params, KernelParams)
            scene.work(node, 110 + 10 * index, correlation, name=node.params.name)
        assert match_replays((graph,), scene.trace()).node.tolist() == [0, 1]

    def test_a_name_that_differs_in_its_templates_only(self) -> None:
        graph = graph_of([kernel(0, "void f<A>(int)"), kernel(1, "void g(int)")])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        scene.work(graph.nodes[0], 110, correlation, name="void f<lib::A>(int)")
        scene.work(graph.nodes[1], 120, correlation)
        assert match_replays((graph,), scene.trace()).node.tolist() == [0, 1]

    def test_a_name_in_templates_is_not_guessed_where_another_row_fits(self) -> None:
        graph = graph_of([kernel(0, "void f<A>(int)"), kernel(1, "g"), kernel(2, "h")])
        scene = Scene()
        correlation = scene.replay(graph, 100, _line([0, 1, 2]))
        scene.work(graph.nodes[0], 125, correlation, name="void f<B>(int)")
        assert match_replays((graph,), scene.trace()).node.tolist() == [0, 1, -1, 2]


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


class TestSeveralGraphs:
    def test_by_what_their_rows_look_like(self) -> None:
        forward = graph_of([kernel(0, "a"), kernel(1, "b")], name="forward")
        backward = graph_of([kernel(0, "b"), kernel(1, "c"), kernel(2, "c")], name="backward")
        scene = Scene()
        for step in (100, 1000):
            scene.replay(forward, step, _line([0, 1]))
            scene.replay(backward, step + 300, _line([0, 1, 2]))
        found = match_replays((forward, backward), scene.trace())
        assert found.graph.tolist() == [0, 0, 1, 1, 1] * 2
        assert found.node.tolist() == [0, 1, 0, 1, 2] * 2
        assert found.replays_of("forward") == found.replays_of("backward") == 2

    def test_graphs_alike_take_turns_and_are_not_certain(self) -> None:
        layers = tuple(graph_of([kernel(0), kernel(1)], name=f"layer-{i}") for i in range(2))
        scene = Scene()
        for start in (100, 300, 500, 700):
            scene.replay(layers[0], start, _line([0, 1]))
        found = match_replays(layers, scene.trace())
        assert found.graph.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
        assert set(found.confidence.tolist()) == {0.5}

    def test_a_graph_that_was_not_captured_stays_unmatched(self) -> None:
        scene = Scene()
        scene.replay(graph_of([kernel(0, "x"), kernel(1, "y")]), 100, _line([0, 1]))
        found = match_replays((graph_of([kernel(0, "a")]),), scene.trace())
        assert found.graph.tolist() == found.node.tolist() == [-1, -1]
        assert found.confidence.tolist() == [0.0, 0.0]
        assert found.matched == 0

    def test_no_graph_and_no_launch(self) -> None:
        graph = graph_of([kernel(0)])
        assert len(match_replays((), Scene().trace()).node) == 0
        assert len(match_replays((graph,), Scene().trace()).node) == 0
        scene = Scene()
        scene.call("cudaGraphLaunch", 100)
        assert match_replays((graph,), scene.trace()).replays_of("graph-0") == 0

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
        assert found.replays_of("graph-0.1") == 1


def _fork_join(branches: list[list[str]]) -> CapturedGraph:
    nodes = [kernel(0, "fork")]
    edges, ends = [], []
    for names in branches:
        before = 0
        for name in names:
            nodes.append(kernel(len(nodes), name))
            edges.append((before, len(nodes) - 1))
            before = len(nodes) - 1
        ends.append(before)
    nodes.append(kernel(len(nodes), "join"))
    edges += [(end, len(nodes) - 1) for end in ends]
    return graph_of(nodes, edges)


def _run(graph: CapturedGraph, stream_of: list[int], rng: random.Random) -> Line:
    """A replay in which every node starts some time after those it depends on and after the one
    before it on its stream."""
    before: list[list[int]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        before[edge.target].append(edge.source)
    start: list[int] = []
    free: dict[int, int] = {}
    for node, stream in enumerate(stream_of):
        at = max([*(start[one] + 6 for one in before[node]), free.get(stream, 0)])
        start.append(at + rng.randrange(20))
        free[stream] = start[-1] + 6
    return sorted(zip(range(len(start)), start, stream_of, strict=True), key=lambda row: row[1])


class TestBranches:
    def test_branches_of_other_kernels_are_certain(self) -> None:
        graph = _fork_join([["a", "b", "b"], ["c", "b", "b"], ["b", "b", "d"]])
        streams = [7, 7, 7, 7, 8, 8, 8, 9, 9, 9, 7]
        for seed in range(20):
            rows = _run(graph, streams, random.Random(seed))
            found = _match(graph, rows)
            assert found.node.tolist() == [row[0] for row in rows]
            assert set(found.confidence.tolist()) == {1.0}
            assert {METHODS[m] for m in found.method} == {BY_BRANCH}

    def test_what_comes_later_on_the_stream_tells_branches_apart(self) -> None:
        # Both begin alike; the one that starts first is the second branch.
        graph = _fork_join([["a", "a", "b"], ["a", "c", "c"]])
        rows = [(0, 0, 7), (4, 10, 8), (1, 12, 7), (5, 20, 8), (2, 22, 7), (6, 30, 8), (3, 32, 7)]
        found = _match(graph, [*rows, (7, 50, 7)])
        assert found.node.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
        assert set(found.confidence.tolist()) == {1.0}

    @pytest.mark.parametrize("join", [7, 8])
    def test_twins_are_told_apart_by_the_order_of_their_streams(self, join: int) -> None:
        graph = _fork_join([["a", "b"]] * 3)
        for seed in range(30):
            rows = _run(graph, [7, 7, 7, 8, 8, 9, 9, join], random.Random(seed))
            found = _match(graph, rows)
            assert found.node.tolist() == [row[0] for row in rows]
            sure = dict(zip(found.node.tolist(), found.confidence.tolist(), strict=True))
            assert sure == {node: 1.0 if node in (0, 7) else 0.9 for node in range(8)}

    def test_a_second_fork_of_twins_begins_anew(self) -> None:
        chains = _fork_join([["a", "b"]] * 3)
        graph = graph_of(
            [*chains.nodes, kernel(8, "c"), kernel(9, "c"), kernel(10, "end")],
            [
                *((edge.source, edge.target) for edge in chains.edges),
                *((7, 8), (7, 9), (8, 10), (9, 10)),
            ],
        )
        for seed in range(20):
            rows = _run(graph, [7, 7, 7, 8, 8, 9, 9, 7, 7, 8, 7], random.Random(seed))
            assert _match(graph, rows).node.tolist() == [row[0] for row in rows]

    def test_twins_on_fewer_streams_are_told_apart_by_nothing_and_say_so(self) -> None:
        graph = _fork_join([["a", "b"]] * 3)
        scene = Scene()
        rows = [_run(graph, [7, 7, 7, 8, 8, 8, 8, 7], random.Random(seed)) for seed in range(30)]
        for number, line in enumerate(rows):
            scene.replay(graph, 1000 * (number + 1), line)
        found = match_replays((graph,), scene.trace())
        assert found.matched == 30 * 8
        sure = {node: found.confidence[found.rows_of("graph-0", node)] for node in range(8)}
        assert [set(sure[node].tolist()) for node in (0, 7)] == [{1.0}, {1.0}]
        for node in range(1, 7):
            np.testing.assert_allclose(sure[node], 1 / 3)
            # Whichever branch a stream is said to be, it is that branch in every replay.
            assert len(set(found.stream[found.rows_of("graph-0", node)].tolist())) == 1

    def test_a_kernel_of_one_branch_alone_is_certain_among_twins(self) -> None:
        graph = _fork_join([["a", "b"], ["a", "b"], ["a", "odd", "b"]])
        rows = _run(graph, [7, 7, 7, 8, 8, 9, 9, 9, 7], random.Random(3))
        found = _match(graph, rows)
        sure = dict(zip(found.node.tolist(), found.confidence.tolist(), strict=True))
        assert [sure[node] for node in (5, 6, 7)] == [1.0, 1.0, 1.0]
        assert [sure[node] for node in (1, 2, 3, 4)] == [0.5] * 4

    def test_streams_of_two_devices_are_not_one(self) -> None:
        graph = _fork_join([["a", "b", "c"], ["a", "b", "d"]])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        order = [(0, 0), (4, 1), (1, 0), (5, 1), (2, 0), (6, 1), (3, 0), (7, 0)]
        for place, (node, device) in enumerate(order):
            scene.work(graph.nodes[node], 110 + 10 * place, correlation, device=device)
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [node for node, _ in order]

    def test_a_kernel_missing_from_a_branch(self) -> None:
        graph = _fork_join([["a", "b", "c", "d"], ["e", "f", "g", "h"]])
        streams = [7, 7, 7, 7, 7, 8, 8, 8, 8, 7]
        for gone in range(10):
            rows = [row for row in _run(graph, streams, random.Random(gone)) if row[0] != gone]
            found = _match(graph, rows)
            assert found.node.tolist() == [row[0] for row in rows]
            assert found.confidence.max() <= 0.9

    def test_a_kernel_too_many_in_a_branch(self) -> None:
        graph = _fork_join([["a", "b", "c", "d"], ["e", "b", "g", "h"]])
        rows = _run(graph, [7, 7, 7, 7, 7, 8, 8, 8, 8, 7], random.Random(1))
        scene = Scene()
        correlation = scene.replay(graph, 100, rows)
        at = next(row[1] for row in rows if row[0] == 2)
        scene.work(kernel(0, "c", grid=99), 110 + at + 1, correlation)
        found = match_replays((graph,), scene.trace())
        assert found.node[found.node >= 0].tolist() == [row[0] for row in rows]
        assert np.count_nonzero(found.node < 0) == 1

    def test_small_copies_in_branches(self) -> None:
        nodes = [kernel(0, "fork"), memcpy(1, 8), kernel(2, "a"), memcpy(3, 4), kernel(4, "b")]
        graph = graph_of(nodes, [(0, 1), (1, 2), (0, 3), (3, 4)])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        own = kernel(0, "memcpy32_post")
        shown = [(nodes[0], 7), (own, 8), (own, 7), (nodes[4], 8), (nodes[2], 7)]
        for place, (node, stream) in enumerate(shown):
            scene.work(node, 110 + 10 * place, correlation, stream=stream)
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [0, 3, 1, 4, 2]


def _check_invariants(graph: CapturedGraph, found: ReplayMatch, truth: list[int]) -> None:
    """What holds of every match of one replay, whatever was lost."""
    labels = [node.label for node in graph.nodes]
    begun: dict[int, int] = {}
    for place, (node, shown) in enumerate(zip(found.node.tolist(), truth, strict=True)):
        if node < 0:
            assert found.confidence[place] == 0.0
            continue
        assert labels[node] == labels[shown]
        assert 0.0 < found.confidence[place] <= 1.0
        assert node not in begun
        begun[node] = int(found.start[place])
    for edge in graph.edges:
        if edge.source in begun and edge.target in begun:
            assert begun[edge.source] <= begun[edge.target]


@st.composite
def branching(draw: st.DrawFn) -> tuple[CapturedGraph, list[int]]:
    """A graph of a few streams that wait for each other, and the stream of each node."""
    count = draw(st.integers(2, 30))
    names = draw(st.integers(1, 6))
    last: dict[int, int] = {}
    edges: set[tuple[int, int]] = set()
    streams, nodes = [], []
    for index in range(count):
        stream = draw(st.integers(7, 10))
        if stream in last:
            edges.add((last[stream], index))
        for other in draw(st.lists(st.integers(7, 10), max_size=2)):
            if other in last:
                edges.add((last[other], index))
        hidden = draw(st.integers(0, 9)) == 0
        name = f"k{draw(st.integers(0, names - 1))}"
        nodes.append(GraphNode(index, NodeKind.EMPTY) if hidden else kernel(index, name))
        last[stream] = index
        streams.append(stream)
    return graph_of(nodes, sorted(edges)), streams


@settings(max_examples=150, deadline=None)
@given(branching(), st.randoms(use_true_random=False), st.integers(0, 40))
def test_any_graph_with_any_row_lost(
    made: tuple[CapturedGraph, list[int]], rng: random.Random, lost: int
) -> None:
    graph, streams = made
    rows = [row for row in _run(graph, streams, rng) if graph.nodes[row[0]].params is not None]
    # Beyond the end: none is lost.
    rows = [row for place, row in enumerate(rows) if place != lost]
    found = _match(graph, rows)
    if len(found.node):
        _check_invariants(graph, found, [row[0] for row in rows])


@settings(max_examples=100, deadline=None)
@given(branching(), st.randoms(use_true_random=False))
def test_names_that_differ_are_always_matched_right(
    made: tuple[CapturedGraph, list[int]], rng: random.Random
) -> None:
    shape, streams = made
    nodes = [
        node if node.params is None else kernel(node.index, f"own{node.index}")
        for node in shape.nodes
    ]
    graph = graph_of(nodes, [(edge.source, edge.target) for edge in shape.edges])
    rows = [row for row in _run(graph, streams, rng) if nodes[row[0]].params is not None]
    found = _match(graph, rows)
    assert found.node.tolist() == [row[0] for row in rows]
    assert set(found.confidence.tolist()) <= {1.0}


@pytest.mark.parametrize("branches", [1, 5])
def test_two_hundred_replays_of_a_thousand_nodes(branches: int) -> None:
    length = 998 // branches
    names = [
        [f"k{b if step == 0 else step % 9}" for step in range(length)] for b in range(branches)
    ]
    graph = _fork_join(names)
    streams = [7, *(7 + b for b in range(branches) for _ in range(length)), 7]
    scene = Scene()
    rng = random.Random(0)
    for number in range(200):
        scene.replay(graph, 1_000_000 * (number + 1), _run(graph, streams, rng))
    trace = scene.trace()
    found = match_replays((graph,), trace)
    assert found.matched == len(found.node) == 200 * len(graph.nodes)
