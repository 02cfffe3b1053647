from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.features.perfetto.trace.lanes import compute_event_positions, split_nested_lanes

SLICES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1])),
    max_size=60,
)


def _arrays(slices: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([begin for begin, _ in slices], dtype=np.int64)
    return start, np.array([end for _, end in slices], dtype=np.int64)


@given(SLICES)
def test_every_slice_is_on_one_lane_and_nests_there(slices: list[tuple[int, int]]) -> None:
    start, end = _arrays(slices)
    lanes = split_nested_lanes(start, end)
    assert sorted(np.concatenate([*lanes, np.zeros(0, int)]).tolist()) == list(range(len(slices)))
    for lane in lanes:
        for place, a in enumerate(lane):
            for b in lane[place + 1 :]:
                assert start[a] <= start[b]
                apart = end[a] <= start[b]
                inside = end[b] <= end[a]
                assert apart or inside, (slices[a], slices[b])


@given(SLICES)
def test_events_go_forward_in_time_and_each_end_closes_its_begin(
    slices: list[tuple[int, int]],
) -> None:
    start, end = _arrays(slices)
    for lane in split_nested_lanes(start, end):
        begin_at, end_at = compute_event_positions(start[lane], end[lane])
        places = np.concatenate((begin_at, end_at))
        assert sorted(places.tolist()) == list(range(2 * len(lane)))
        now, stack = -1, []
        for event in np.argsort(places):
            row = lane[event % len(lane)]
            if event < len(lane):
                stack.append(row)
                ts = start[row]
            else:
                assert stack.pop() == row
                ts = end[row]
            assert ts >= now
            now = ts
        assert stack == []


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_nested_slices_need_one_lane(closes: list[int]) -> None:
    """Calls of one thread: each opens one more and closes some."""
    slices: list[list[int]] = []
    stack: list[int] = []
    now = 0
    for count in closes:
        slices.append([now, -1])
        stack.append(len(slices) - 1)
        now += 1
        for _ in range(min(count, len(stack))):
            slices[stack.pop()][1] = now
            now += 1
    for left in reversed(stack):
        slices[left][1] = now
        now += 1
    start, end = _arrays([(begin, stop) for begin, stop in slices])
    assert len(split_nested_lanes(start, end)) == 1


def test_an_overlapping_slice_goes_to_the_next_lane() -> None:
    start, end = _arrays([(0, 10), (5, 15), (12, 14)])
    assert [lane.tolist() for lane in split_nested_lanes(start, end)] == [[0, 2], [1]]


def test_thousands_that_all_overlap_take_no_long_time() -> None:
    start = np.arange(20_000, dtype=np.int64)
    lanes = split_nested_lanes(start, start + 1_000_000)
    assert sum(len(lane) for lane in lanes) == 20_000
