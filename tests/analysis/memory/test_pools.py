from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.memory.report import (
    compute_footprints,
    compute_pool_breakdowns,
    iter_segment_spans,
)
from graphviz_dash.model.memory import (
    Extent,
    GraphMemory,
    MemoryPass,
    PoolSegment,
)
from tests.analysis.memory_passes import GRAPHED, MIB, POOL


def test_each_graph_has_its_share_of_the_pool() -> None:
    first, second = compute_footprints(GRAPHED)
    assert (first.footprint, first.exclusive, first.shared) == (30 * MIB, 20 * MIB, 10 * MIB)
    assert (second.footprint, second.exclusive, second.shared) == (44 * MIB, 34 * MIB, 10 * MIB)
    assert (second.live_after_capture, second.peak, second.instantiate_device) == (
        9 * MIB,
        20 * MIB,
        2 * MIB,
    )


def test_a_pool_adds_up_to_what_it_reserved() -> None:
    (pool,) = compute_pool_breakdowns(GRAPHED)
    assert (pool.id, pool.segments, pool.reserved) == (POOL, 2, 70 * MIB)
    assert pool.graphs == {"graph-0", "graph-1"}
    parts = (pool.exclusive, pool.shared, pool.unused, pool.workspaces, *pool.owned.values())
    assert sum(parts) == pool.reserved


spans = st.tuples(st.integers(0, 90), st.integers(1, 10)).map(lambda p: (p[0], p[0] + p[1]))


@given(st.lists(st.lists(spans, max_size=4), max_size=5))
def test_stretches_divide_a_segment_without_gap_or_overlap(
    drawn: list[list[tuple[int, int]]],
) -> None:
    graphs = tuple(
        GraphMemory(
            f"graph-{number}", POOL, 1, 0, 0, tuple(Extent(0, b, e) for b, e in separate(one)), None
        )
        for number, one in enumerate(drawn)
    )
    found = MemoryPass("", 1, (), (), (), (PoolSegment(POOL, 100),), (), graphs)
    pieces = list(iter_segment_spans(found))
    assert [piece.begin for piece in pieces] == [0, *(piece.end for piece in pieces)][:-1]
    assert pieces[-1].end == 100
    for piece in pieces:
        expected = {
            graph.graph
            for graph in graphs
            for extent in graph.extents
            if extent.start <= piece.begin < extent.end
        }
        assert set(piece.graphs) == expected


def separate(extents: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that overlap and touch no earlier one."""
    kept: list[tuple[int, int]] = []
    for begin, end in extents:
        if all(end < other[0] or other[1] < begin for other in kept):
            kept.append((begin, end))
    return kept
