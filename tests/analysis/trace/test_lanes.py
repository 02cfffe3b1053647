from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.arrays import find_first_positions
from graphviz_dash.analysis.trace.lanes import (
    LaneSet,
    build_trace_lanes,
    find_idle_periods,
    split_overlaps,
)
from tests.charts.frames import call, kernel, trace

_SLICES = st.lists(
    st.tuples(
        st.integers(0, 400),  # start
        st.integers(0, 60),  # duration; empty slices do occur
        st.integers(7, 9),  # stream
        st.integers(0, 1),  # device
    ),
    max_size=60,
)


def _lanes(slices: list[tuple[int, int, int, int]]) -> LaneSet:
    return build_trace_lanes(trace([kernel(*one) for one in slices])).gpu


@given(_SLICES)
def test_every_row_is_in_exactly_one_lane_of_its_stream(
    slices: list[tuple[int, int, int, int]],
) -> None:
    made = trace([kernel(*one) for one in slices])
    lanes = build_trace_lanes(made).gpu
    assert sorted(lanes.row.tolist()) == list(range(len(slices)))
    for lane in range(len(lanes)):
        for row in lanes.row[lanes.get_span(lane)].tolist():
            assert made.gpu["stream"][row] == lanes.track[lane]
            assert made.gpu["device"][row] == lanes.owner[lane]


@given(_SLICES)
def test_nothing_overlaps_inside_a_lane(slices: list[tuple[int, int, int, int]]) -> None:
    lanes = _lanes(slices)
    for lane in range(len(lanes)):
        inside = lanes.get_span(lane)
        assert np.all(lanes.end[inside][:-1] <= lanes.start[inside][1:])


@given(_SLICES, st.integers(-50, 500), st.lists(st.integers(0, 40), min_size=1, max_size=30))
def test_binned_busy_time_is_what_counting_each_nanosecond_gives(
    slices: list[tuple[int, int, int, int]], begin: int, widths: list[int]
) -> None:
    edges = begin + np.concatenate(([0], np.cumsum(widths)))
    lanes = _lanes(slices)
    for lane in range(len(lanes)):
        inside = lanes.get_span(lane)
        counted = np.zeros(700, dtype=np.int64)
        for start, end in zip(lanes.start[inside], lanes.end[inside], strict=True):
            counted[start + 100 : end + 100] = 1
        expected = [
            int(counted[max(0, a + 100) : max(0, b + 100)].sum()) for a, b in pairwise(edges)
        ]
        binned = lanes.compute_busy_between(lane, edges)
        assert binned.tolist() == expected
        assert binned.sum() == lanes.compute_busy_between(lane, edges[[0, -1]]).sum()


@given(_SLICES)
def test_a_device_is_busy_when_any_of_its_streams_is(
    slices: list[tuple[int, int, int, int]],
) -> None:
    device = build_trace_lanes(trace([kernel(*one) for one in slices])).device
    edges = np.arange(0, 520)
    for lane in range(len(device)):
        expected = np.zeros(519, dtype=np.int64)
        for start, dur, _, owner in slices:
            if owner == device.owner[lane]:
                expected[start : start + dur] = 1
        assert device.compute_busy_between(lane, edges).tolist() == expected.tolist()


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 200)), min_size=1, max_size=80))
@settings(max_examples=60)
def test_as_many_sublanes_as_run_at_once(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted((start, start + dur) for start, dur in pairs)
    start, end = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    lanes = split_overlaps(start, end)
    depth = max(sum(1 for a, b in pairs if a <= at < b) for at, _ in pairs)
    assert len(lanes) == depth
    assert sorted(np.concatenate(lanes).tolist()) == list(range(len(pairs)))


def test_deep_overlap_needs_one_sublane_for_each_slice() -> None:
    start = np.arange(50, dtype=np.int64)
    lanes = split_overlaps(start, start + 1000)
    assert [lane.tolist() for lane in lanes] == [[i] for i in range(50)]


def test_an_empty_slice_shares_a_lane_at_an_edge_but_not_inside_another() -> None:
    assert len(_lanes([(0, 10, 7, 0), (10, 0, 7, 0), (0, 0, 7, 0)])) == 1
    assert len(_lanes([(0, 10, 7, 0), (5, 0, 7, 0)])) == 2


def test_an_empty_trace_has_no_lanes() -> None:
    lanes = build_trace_lanes(trace())
    assert (len(lanes.gpu), len(lanes.cpu), len(lanes.device)) == (0, 0, 0)


def test_one_graph_launch_leads_to_all_its_kernels() -> None:
    made = trace(
        [kernel(10, 5, correlation=3), kernel(20, 5, correlation=3), kernel(30, 5, correlation=9)],
        [call(0, 2, "cudaGraphLaunch", correlation=3), call(4, 2, correlation=4)],
    )
    links = build_trace_lanes(made).links
    assert links.launch.tolist() == [0, 0, -1]
    assert links.get_launched_rows(0).tolist() == [0, 1]
    assert links.get_launched_rows(1).tolist() == []


def test_rows_without_correlation_are_linked_to_nothing() -> None:
    made = trace([kernel(10, 5)], [call(0, 2)])
    assert build_trace_lanes(made).links.launch.tolist() == [-1]


@given(
    st.lists(st.one_of(st.integers(-2, 9), st.integers(-(2**63), 2**63 - 1)), max_size=12),
    st.lists(st.one_of(st.integers(-2, 9), st.integers(-(2**63), 2**63 - 1)), max_size=12),
    st.sampled_from([(5, 3, 3), (), (-5, -9)]),
)
def test_an_id_is_found_where_it_stands_first(
    ids: list[int], wanted: list[int], close: tuple[int, ...]
) -> None:
    # Among others, so that many of them lie close together; or alone, perhaps all below 0.
    ids = [*ids, *close]
    wanted = wanted + ids
    found = find_first_positions(np.array(ids, dtype=np.int64), np.array(wanted, dtype=np.int64))
    assert found.tolist() == [ids.index(one) if one >= 0 and one in ids else -1 for one in wanted]


def test_a_cpu_lane_holds_what_launches_waits_or_allocates() -> None:
    made = trace(
        [],
        [
            call(0, 5, "cudaLaunchKernel"),
            call(10, 5, "cudaStreamIsCapturing"),
            call(20, 5, "cudaDeviceSynchronize"),
            call(30, 5, "cudaGraphLaunch"),
            call(40, 5, "cudaEventQuery"),
        ],
    )
    lanes = build_trace_lanes(made).cpu
    assert lanes.row.tolist() == [0, 2, 3]


def test_nested_calls_of_a_thread_lie_on_sublanes() -> None:
    lanes = build_trace_lanes(trace([], [call(0, 50), call(10, 5, "cuLaunchKernelEx")])).cpu
    assert lanes.sub.tolist() == [0, 1]


def test_idle_periods_lie_between_slices_of_the_window() -> None:
    device = build_trace_lanes(trace([kernel(0, 10), kernel(50, 10), kernel(61, 9)])).device
    assert find_idle_periods(device, 0, 0, 100, 5) == [(10, 50)]
    assert find_idle_periods(device, 0, 0, 100, 1) == [(10, 50), (60, 61)]
    assert find_idle_periods(device, 0, 20, 30, 1) == [(10, 50)]  # inside one gap
    assert find_idle_periods(device, 0, 61, 100, 1) == [(60, 61)]
    assert find_idle_periods(device, 0, 65, 100, 1) == []
