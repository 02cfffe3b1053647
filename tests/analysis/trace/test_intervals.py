from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.trace.intervals import NONE, Nesting


def _nested(draw: st.DrawFn, begin: int, end: int, deep: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = begin
    while at < end and draw(st.booleans()):
        at += draw(st.integers(0, 3))
        stop = min(end, at + draw(st.integers(1, 12)))
        if at >= stop:
            break
        found.append((at, stop))
        if deep:
            found += _nested(draw, at, stop, deep - 1)
        at = stop
    return found


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Intervals (start, end, thread) that nest on each of two threads."""
    rows = [(a, b, thread) for thread in (-1, 5) for a, b in _nested(draw, 0, 40, 3)]
    return draw(st.permutations(rows))


def _build(rows: list[tuple[int, int, int]]) -> Nesting:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Nesting.build(table[:, 0], table[:, 1] - table[:, 0], table[:, 2])


@given(nested())
def test_the_innermost_around_an_instant(rows: list[tuple[int, int, int]]) -> None:
    nesting = _build(rows)
    instants = np.arange(-1, 42, dtype=np.int64)
    for thread in (-1, 5, 9):
        found = nesting.find_around(instants, np.full(len(instants), thread, dtype=np.int64))
        for instant, row in zip(instants.tolist(), found.tolist(), strict=True):
            holding = [b - a for a, b, t in rows if t == thread and a <= instant < b]
            shortest = None if row == NONE else rows[row][1] - rows[row][0]
            assert shortest == min(holding, default=None)
            if row != NONE:
                assert rows[row][2] == thread
                assert rows[row][0] <= instant < rows[row][1]


@given(nested(), st.integers(0, 2**16))
def test_the_nearest_wanted(rows: list[tuple[int, int, int]], bits: int) -> None:
    nesting = _build(rows)
    wanted = np.array([bool(bits >> i % 16 & 1) for i in range(len(rows))], dtype=bool)
    for row, near in enumerate(nesting.find_nearest(wanted).tolist()):
        at = row
        while at != NONE and not wanted[at]:
            at = int(nesting.parent[at])
        assert near == at


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 2)), max_size=20))
def test_overlaps_that_do_not_nest_are_no_parents(rows: list[tuple[int, int, int]]) -> None:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    nesting = Nesting.build(table[:, 0], table[:, 1], table[:, 2])
    for row, parent in enumerate(nesting.parent.tolist()):
        if parent == NONE:
            assert nesting.depth[row] == 0
            continue
        assert nesting.depth[row] == nesting.depth[parent] + 1
        assert nesting.thread[row] == nesting.thread[parent]
        assert nesting.start[parent] <= nesting.start[row]
        assert nesting.end[row] <= nesting.end[parent]


def test_a_call_that_outlasts_its_caller_was_not_seen_to_return() -> None:
    # An outer and an inner call, a built-in whose return is missing, and a call after it.
    start, duration = np.array([0, 10, 20, 30]), np.array([100, 80, 500, 40])
    thread = np.zeros(4, dtype=np.int64)
    overlapping = Nesting.build(start, duration, thread)
    assert overlapping.parent.tolist() == [NONE, 0, NONE, 2]
    calls = Nesting.build(start, duration, thread, calls=True)
    assert calls.parent.tolist() == [NONE, 0, 1, 2]
    assert calls.end.tolist() == [100, 90, 90, 70]
    assert calls.find_around(np.array([95, 200]), np.zeros(2, dtype=np.int64)).tolist() == [0, NONE]
