"""Captured copies that a trace shows as two rows of the full size (pytorch issue 191284)."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.replays.replays import match_replays
from tests.analysis.scenes import Scene, graph_of, kernel, memcpy

GRAPH = graph_of([memcpy(0, 512), kernel(1, "a"), memcpy(2, 512), memcpy(3, 512), kernel(4, "b")])


def replay(rows: list[tuple[int, int]]) -> Scene:
    """A replay whose rows are (node, start); each lasts 5 ns on stream 7."""
    scene = Scene()
    scene.replay(GRAPH, 100, [(node, start, 7) for node, start in rows])
    return scene


def test_two_rows_of_a_copy_are_one_node_with_their_time() -> None:
    pairs = [(0, 0), (0, 6), (1, 20), (2, 30), (2, 37), (3, 50), (3, 55), (4, 70)]
    match = match_replays((GRAPH,), replay(pairs).trace())
    assert match.node.tolist() == [0, 1, 2, 3, 4]
    assert match.duration.tolist() == [11, 5, 12, 10, 5]
    assert set(match.confidence.tolist()) == {1.0}


def test_a_copy_of_one_row_stays_as_it_is() -> None:
    mixed = [(0, 0), (1, 20), (2, 30), (2, 37), (3, 50), (3, 55), (4, 70)]
    match = match_replays((GRAPH,), replay(mixed).trace())
    assert match.node.tolist() == [0, 1, 2, 3, 4]
    assert match.duration.tolist() == [5, 5, 12, 10, 5]


@pytest.mark.parametrize("missing", [0, 2])
def test_equal_copies_of_single_rows_are_not_merged(missing: int) -> None:
    rows = [(0, 0), (1, 20), (2, 30), (3, 37), (4, 70)]
    match = match_replays((GRAPH,), replay(rows[missing and 1 :]).trace())
    assert np.count_nonzero(match.node >= 0) == len(rows) - (missing > 0)
    assert set(match.duration.tolist()) == {5}


def test_copies_on_two_streams_are_no_pair() -> None:
    scene = Scene()
    rows = [(0, 0, 7), (0, 1, 8), (1, 20, 7), (2, 30, 7), (3, 9_000, 8), (4, 9_000, 7)]
    scene.replay(GRAPH, 100, rows)
    assert set(match_replays((GRAPH,), scene.trace()).duration.tolist()) == {5}


def test_copies_with_the_size_of_another_graph_match_by_their_place() -> None:
    scene = replay([(0, 0), (1, 20), (2, 30), (3, 50), (4, 70)])
    for row in scene.gpu:
        if row["kind"] == "memcpy":
            row["bytes"] = 1 << 29
    match = match_replays((GRAPH,), scene.trace())
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
