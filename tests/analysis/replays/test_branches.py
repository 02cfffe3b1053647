from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.replays.replays import (
    BY_BRANCH,
    METHODS,
    match_replays,
)
from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphNode,
    NodeKind,
)
from tests.analysis.replays.known_replays import (
    check_invariants,
    fork_join,
    match_one,
    replay_rows,
)
from tests.analysis.scenes import Scene, graph_of, kernel, memcpy


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


class TestBranches:
    def test_branches_of_other_kernels_are_certain(self) -> None:
        graph = fork_join([["a", "b", "b"], ["c", "b", "b"], ["b", "b", "d"]])
        streams = [7, 7, 7, 7, 8, 8, 8, 9, 9, 9, 7]
        for seed in range(20):
            rows = replay_rows(graph, streams, random.Random(seed))
            found = match_one(graph, rows)
            assert found.node.tolist() == [row[0] for row in rows]
            assert set(found.confidence.tolist()) == {1.0}
            assert {METHODS[m] for m in found.method} == {BY_BRANCH}

    def test_later_nodes_of_a_stream_distinguish_branches(self) -> None:
        # Both begin alike; the one that starts first is the second branch.
        graph = fork_join([["a", "a", "b"], ["a", "c", "c"]])
        rows = [(0, 0, 7), (4, 10, 8), (1, 12, 7), (5, 20, 8), (2, 22, 7), (6, 30, 8), (3, 32, 7)]
        found = match_one(graph, [*rows, (7, 50, 7)])
        assert found.node.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
        assert set(found.confidence.tolist()) == {1.0}

    @pytest.mark.parametrize("join", [7, 8])
    def test_twins_are_told_apart_by_the_order_of_their_streams(self, join: int) -> None:
        graph = fork_join([["a", "b"]] * 3)
        for seed in range(30):
            rows = replay_rows(graph, [7, 7, 7, 8, 8, 9, 9, join], random.Random(seed))
            found = match_one(graph, rows)
            assert found.node.tolist() == [row[0] for row in rows]
            sure = dict(zip(found.node.tolist(), found.confidence.tolist(), strict=True))
            assert sure == {node: 1.0 if node in (0, 7) else 0.9 for node in range(8)}

    def test_a_second_fork_of_twins_begins_again(self) -> None:
        chains = fork_join([["a", "b"]] * 3)
        graph = graph_of(
            [*chains.nodes, kernel(8, "c"), kernel(9, "c"), kernel(10, "end")],
            [
                *((edge.source, edge.target) for edge in chains.edges),
                *((7, 8), (7, 9), (8, 10), (9, 10)),
            ],
        )
        for seed in range(20):
            rows = replay_rows(graph, [7, 7, 7, 8, 8, 9, 9, 7, 7, 8, 7], random.Random(seed))
            assert match_one(graph, rows).node.tolist() == [row[0] for row in rows]

    def test_twins_on_fewer_streams_are_told_apart_by_nothing_and_say_so(self) -> None:
        graph = fork_join([["a", "b"]] * 3)
        scene = Scene()
        streams = [7, 7, 7, 8, 8, 8, 8, 7]
        rows = [replay_rows(graph, streams, random.Random(seed)) for seed in range(30)]
        for number, line in enumerate(rows):
            scene.replay(graph, 1000 * (number + 1), line)
        found = match_replays((graph,), scene.trace())
        assert found.matched_count == 30 * 8
        sure = {node: found.confidence[found.get_node_rows("graph-0", node)] for node in range(8)}
        assert [set(sure[node].tolist()) for node in (0, 7)] == [{1.0}, {1.0}]
        for node in range(1, 7):
            np.testing.assert_allclose(sure[node], 1 / 3)
            # Whichever branch a stream is said to be, it is that branch in every replay.
            assert len(set(found.stream[found.get_node_rows("graph-0", node)].tolist())) == 1

    def test_a_kernel_of_one_branch_alone_is_certain_among_twins(self) -> None:
        graph = fork_join([["a", "b"], ["a", "b"], ["a", "odd", "b"]])
        rows = replay_rows(graph, [7, 7, 7, 8, 8, 9, 9, 9, 7], random.Random(3))
        found = match_one(graph, rows)
        sure = dict(zip(found.node.tolist(), found.confidence.tolist(), strict=True))
        assert [sure[node] for node in (5, 6, 7)] == [1.0, 1.0, 1.0]
        assert [sure[node] for node in (1, 2, 3, 4)] == [0.5] * 4

    def test_streams_of_two_devices_are_not_one(self) -> None:
        graph = fork_join([["a", "b", "c"], ["a", "b", "d"]])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        order = [(0, 0), (4, 1), (1, 0), (5, 1), (2, 0), (6, 1), (3, 0), (7, 0)]
        for place, (node, device) in enumerate(order):
            scene.work(graph.nodes[node], 110 + 10 * place, correlation, device=device)
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [node for node, _ in order]

    def test_a_kernel_missing_from_a_branch(self) -> None:
        graph = fork_join([["a", "b", "c", "d"], ["e", "f", "g", "h"]])
        streams = [7, 7, 7, 7, 7, 8, 8, 8, 8, 7]
        for gone in range(10):
            every = replay_rows(graph, streams, random.Random(gone))
            rows = [row for row in every if row[0] != gone]
            found = match_one(graph, rows)
            assert found.node.tolist() == [row[0] for row in rows]
            assert found.confidence.max() <= 0.9

    def test_a_kernel_too_many_in_a_branch(self) -> None:
        graph = fork_join([["a", "b", "c", "d"], ["e", "b", "g", "h"]])
        rows = replay_rows(graph, [7, 7, 7, 7, 7, 8, 8, 8, 8, 7], random.Random(1))
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


@settings(max_examples=50, deadline=None)
@given(branching(), st.randoms(use_true_random=False), st.integers(0, 40))
def test_any_graph_with_any_row_lost(
    made: tuple[CapturedGraph, list[int]], rng: random.Random, lost: int
) -> None:
    graph, streams = made
    every = replay_rows(graph, streams, rng)
    rows = [row for row in every if graph.nodes[row[0]].params is not None]
    # Beyond the end: none is lost.
    rows = [row for place, row in enumerate(rows) if place != lost]
    found = match_one(graph, rows)
    if len(found.node):
        check_invariants(graph, found, [row[0] for row in rows])


@settings(max_examples=40, deadline=None)
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
    rows = [row for row in replay_rows(graph, streams, rng) if nodes[row[0]].params is not None]
    found = match_one(graph, rows)
    assert found.node.tolist() == [row[0] for row in rows]
    assert set(found.confidence.tolist()) <= {1.0}


@pytest.mark.parametrize("branches", [1, 5])
def test_fifty_replays_of_a_thousand_nodes(branches: int) -> None:
    length = 998 // branches
    names = [
        [f"k{b if step == 0 else step % 9}" for step in range(length)] for b in range(branches)
    ]
    graph = fork_join(names)
    streams = [7, *(7 + b for b in range(branches) for _ in range(length)), 7]
    scene = Scene()
    rng = random.Random(0)
    for number in range(50):
        scene.replay(graph, 1_000_000 * (number + 1), replay_rows(graph, streams, rng))
    trace = scene.trace()
    found = match_replays((graph,), trace)
    assert found.matched_count == len(found.node) == 50 * len(graph.nodes)
