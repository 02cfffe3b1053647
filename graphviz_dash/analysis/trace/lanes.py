"""Lanes of a trace: rows without overlap, with prefix sums for exact binning.

GPU work is grouped by (device, stream), CPU calls by (process, thread). Slices of one stream can
overlap (programmatic launch, graph branches shown on one stream); overlapping slices move to
sub-lanes by first fit. Starts and ends are both sorted within a lane, so the busy time before any
instant needs one binary search and one prefix sum.

All times are integer nanoseconds since the trace's origin.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import (
    Ints,
    compute_offsets,
    encode,
    find_first_positions,
    get_column,
    get_spans,
    is_sorted_within_codes,
)
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace


# Sub-lanes found by following chains of slices; beyond this depth a heap is cheaper.
_MAX_CHAINED_SUBLANES = 8

SHOWN_CALLS = frozenset(
    {
        CallClass.KERNEL_LAUNCH,
        CallClass.GRAPH_LAUNCH,
        CallClass.COPY,
        CallClass.SYNCHRONISE,
        CallClass.MEMORY,
    }
)
"""Calls on CPU lanes: they submit work, wait or allocate.

Queries, attribute calls and event bookkeeping are excluded because they are frequent and short.
"""


class LaneSet(Struct, frozen=True):
    """Lanes packed in sequence; lane ``i`` is ``bounds[i]:bounds[i + 1]`` of the slices."""

    owner: Ints
    """Device (GPU) or process (CPU) of each lane."""
    track: Ints
    """Stream or thread of each lane."""
    sub: Ints
    """Number within the track, from 0."""
    bounds: Ints
    """Start index of each lane's slices, and the end of the last one, shape (lanes + 1,)."""
    row: Ints
    """Row of each slice in its table, or -1 if not a single row."""
    start: Ints
    end: Ints
    busy: Ints
    """Total time of the first ``k`` slices over all lanes, shape (slices + 1,)."""

    def __len__(self) -> int:
        return len(self.owner)

    def get_span(self, lane: int) -> slice:
        """Return the slice range of ``lane``."""
        return slice(int(self.bounds[lane]), int(self.bounds[lane + 1]))

    def get_window(self, lane: int, begin: int, stop: int) -> slice:
        """Return the range of slices of ``lane`` that touch [begin, stop], including empty ones."""
        inside = self.get_span(lane)
        first = int(np.searchsorted(self.end[inside], begin, "left"))
        last = int(np.searchsorted(self.start[inside], stop, "right"))
        return slice(inside.start + first, inside.start + max(first, last))

    def compute_busy_before(self, lane: int, instants: Ints) -> Ints:
        """Return the busy time of ``lane`` before each of ``instants``, in ns."""
        inside = self.get_span(lane)
        ended_count = inside.start + np.searchsorted(self.end[inside], instants, "right")
        total = self.busy[ended_count] - self.busy[inside.start]
        running = ended_count < inside.stop
        if inside.stop > inside.start:
            index = np.minimum(ended_count, inside.stop - 1)
            total = total + np.where(running, np.maximum(instants - self.start[index], 0), 0)
        return np.asarray(total, dtype=np.int64)

    def measure_overlap(self, begin: Ints, end: Ints) -> Ints:
        """Return the busy time of the first lane in each period, in ns; 0 without lanes."""
        if not len(self):
            return np.zeros(len(begin), dtype=np.int64)
        before = self.compute_busy_before(0, begin)
        return self.compute_busy_before(0, np.maximum(end, begin)) - before

    def compute_busy_between(self, lane: int, edges: Ints) -> Ints:
        """Return the busy time of ``lane`` between consecutive ascending ``edges``, in ns."""
        return np.diff(self.compute_busy_before(lane, edges))


class Links(Struct, frozen=True):
    """Links from GPU rows to their launch calls, by correlation; a graph call has many rows.

    ``launch`` is the runtime row of each GPU row, or -1 if unknown.
    """

    launch: Ints
    order: Ints
    row_offsets: Ints

    def get_launched_rows(self, runtime_row: int) -> Ints:
        """Return the GPU rows launched by ``runtime_row``, in trace order."""
        return self.order[self.row_offsets[runtime_row] : self.row_offsets[runtime_row + 1]]


class TraceLanes(Struct, frozen=True):
    """The lanes of one trace."""

    gpu: LaneSet
    """GPU lanes by (device, stream, sub-lane)."""
    cpu: LaneSet
    """Lanes of SHOWN_CALLS by (process, thread, sub-lane)."""
    device: LaneSet
    """One lane of busy periods per device."""
    links: Links


def build_trace_lanes(trace: Trace) -> TraceLanes:
    """Build the lanes of ``trace``; every GPU row is in exactly one GPU lane."""
    gpu, runtime = trace.gpu, trace.runtime
    start, end = get_spans(gpu)
    device = get_column(gpu, "device")
    rows = np.arange(len(start), dtype=np.int64)
    visible_calls = np.flatnonzero(_find_shown_calls(runtime))
    call_start, call_end = get_spans(runtime, visible_calls)
    return TraceLanes(
        gpu=pack_lanes(device, get_column(gpu, "stream"), rows, start, end),
        cpu=pack_lanes(
            get_column(runtime, "pid")[visible_calls],
            get_column(runtime, "tid")[visible_calls],
            visible_calls,
            call_start,
            call_end,
        ),
        device=merge_busy(device, start, end),
        links=link_trace_launches(trace),
    )


def link_trace_launches(trace: Trace) -> Links:
    """Link the GPU rows of ``trace`` to their launch calls."""
    return link_launches(
        get_column(trace.gpu, "correlation"), get_column(trace.runtime, "correlation")
    )


def create_empty_lanes() -> TraceLanes:
    """Create the lanes of an empty trace."""
    empty_column = np.zeros(0, dtype=np.int64)
    empty = _create_empty()
    return TraceLanes(
        empty, empty, empty, Links(empty_column, empty_column, compute_offsets(empty_column))
    )


def pack_lanes(owner: Ints, track: Ints, row: Ints, start: Ints, end: Ints) -> LaneSet:
    """Pack slices, given by parallel arrays of shape (n,), into lanes ordered by (owner, track)."""
    if not len(start):
        return _create_empty()
    owners, tracks, code = _encode_tracks(owner, track)
    # A stable sort by track preserves time order. At ties, the empty slice must come first, or it
    # would overlap the one that starts with it.
    order = np.argsort(code, kind="stable")
    if not is_sorted_within_codes(code[order], start[order], end[order]):
        order = np.lexsort((end, start, code))
    begins = np.flatnonzero(np.diff(code[order], prepend=-1))
    pieces: list[Ints] = []
    lane_owner: list[int] = []
    lane_track: list[int] = []
    lane_sub: list[int] = []
    for begin, stop in zip(begins, np.append(begins[1:], len(order)), strict=True):
        inside = order[begin:stop]
        track_code = int(code[inside[0]])
        for sub, members in enumerate(split_overlaps(start[inside], end[inside])):
            pieces.append(inside[members])
            lane_owner.append(int(owners[track_code]))
            lane_track.append(int(tracks[track_code]))
            lane_sub.append(sub)
    packed_rows = np.concatenate(pieces)
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    return LaneSet(
        owner=np.array(lane_owner, dtype=np.int64),
        track=np.array(lane_track, dtype=np.int64),
        sub=np.array(lane_sub, dtype=np.int64),
        bounds=compute_offsets(sizes),
        row=row[packed_rows],
        start=start[packed_rows],
        end=end[packed_rows],
        busy=compute_offsets(end[packed_rows] - start[packed_rows]),
    )


def split_overlaps(start: Ints, end: Ints) -> list[Ints]:
    """Split slices sorted by start into sub-lanes by first fit; return the positions of each.

    Their number is the maximum concurrency.
    """
    if not len(start):
        return []
    if bool(np.all(end[:-1] <= start[1:])):
        return [np.arange(len(start), dtype=np.int64)]
    # Most slices overlap nothing even then, so only overlapping groups are followed individually.
    busy_until = np.maximum.accumulate(end)
    group_starts = np.flatnonzero(np.append(True, start[1:] >= busy_until[:-1]))
    crowded_lanes = np.repeat(
        np.diff(group_starts, append=len(start)) > 1, np.diff(group_starts, append=len(start))
    )
    remaining = np.flatnonzero(crowded_lanes)
    lanes: list[Ints] = []
    while len(remaining) and len(lanes) < _MAX_CHAINED_SUBLANES:
        chain = _follow_chain(start[remaining], end[remaining])
        lanes.append(remaining[chain])
        remaining = np.delete(remaining, chain)
    lanes[0] = np.sort(np.concatenate((np.flatnonzero(~crowded_lanes), lanes[0])))
    return lanes + [remaining[part] for part in _assign_first_fit(start[remaining], end[remaining])]


def merge_busy(device: Ints, start: Ints, end: Ints) -> LaneSet:
    """Return one lane per device with the periods of at least one running slice."""
    devices = np.unique(device)
    periods = [
        _merge_intervals(start[device == number], end[device == number]) for number in devices
    ]
    if not periods:
        return _create_empty()
    starts = np.concatenate([period[0] for period in periods])
    ends = np.concatenate([period[1] for period in periods])
    return LaneSet(
        owner=devices.astype(np.int64),
        track=np.full(len(devices), -1, dtype=np.int64),
        sub=np.zeros(len(devices), dtype=np.int64),
        bounds=compute_offsets(np.array([len(period[0]) for period in periods], dtype=np.int64)),
        row=np.broadcast_to(np.int64(-1), len(starts)),
        start=starts,
        end=ends,
        busy=compute_offsets(ends - starts),
    )


def link_launches(gpu: Ints, runtime: Ints) -> Links:
    """Link by correlation ids, int64 with -1 for none; the first call of an id wins."""
    launch = find_first_positions(runtime, gpu)
    by_launch = np.argsort(launch, kind="stable")
    linked_lanes = by_launch[int(np.count_nonzero(launch < 0)) :]
    counts = np.bincount(launch[linked_lanes], minlength=len(runtime))
    return Links(
        launch=launch, order=linked_lanes, row_offsets=compute_offsets(counts.astype(np.int64))
    )


def find_idle_periods(
    lanes: LaneSet, lane: int, begin: int, stop: int, min_length: int
) -> list[tuple[int, int]]:
    """Find periods of at least ``min_length`` ns between slices of ``lane`` in [begin, stop]."""
    inside = lanes.get_span(lane)
    touched_rows = lanes.get_window(lane, begin, stop)
    first = max(inside.start, touched_rows.start - 1)
    last = min(inside.stop, touched_rows.stop + 1)
    ends, starts = lanes.end[first : last - 1], lanes.start[first + 1 : last]
    is_long = (starts - ends >= max(1, min_length)) & (starts >= begin) & (ends <= stop)
    return list(zip(ends[is_long].tolist(), starts[is_long].tolist(), strict=True))


def _follow_chain(start: Ints, end: Ints) -> Ints:
    following = np.maximum(np.searchsorted(start, end, "left"), np.arange(1, len(start) + 1))
    steps = following.tolist()
    chain, position = [], 0
    while position < len(steps):
        chain.append(position)
        position = steps[position]
    return np.array(chain, dtype=np.int64)


def _assign_first_fit(start: Ints, end: Ints) -> list[Ints]:
    """Use a heap of lane ends, for depths where chains are too slow."""
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    lanes: list[list[int]] = []
    for position, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            lanes.append([])
        lane = heapq.heappop(free) if free else len(lanes) - 1
        lanes[lane].append(position)
        heapq.heappush(busy, (stop, lane))
    return [np.array(lane, dtype=np.int64) for lane in lanes]


def _merge_intervals(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(start, kind="stable")
    starts = start[order]
    reach = np.maximum.accumulate(end[order])
    opens = np.flatnonzero(np.append(True, starts[1:] > reach[:-1]))
    closes = np.append(opens[1:] - 1, len(starts) - 1)
    return starts[opens], reach[closes]


def _encode_tracks(owner: Ints, track: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the distinct pairs, sorted, and the code of each slice's pair."""
    owners, owner_code = find_distinct_values(owner)
    tracks, track_code = find_distinct_values(track)
    pair = owner_code.astype(np.int64) * len(tracks) + track_code
    used = (
        np.flatnonzero(np.bincount(pair, minlength=1))
        if len(owners) * len(tracks) <= (1 << 22)
        else np.unique(pair)
    )
    code = np.searchsorted(used, pair)
    return owners[used // len(tracks)], tracks[used % len(tracks)], code.astype(np.int64)


def find_distinct_values(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values, sorted, and the index of each value among them.

    Dense values are counted, several times faster than sorting.
    """
    low = int(values.min())
    span = int(values.max()) - low
    if span > len(values):
        uniques, positions = np.unique(values, return_inverse=True)
        return uniques, positions.astype(np.int64)
    shifted_values = values - low
    present = np.zeros(span + 1, dtype=np.bool_)
    present[shifted_values] = True
    return np.flatnonzero(present) + low, (np.cumsum(present) - 1)[shifted_values]


def _find_shown_calls(runtime: pl.DataFrame) -> npt.NDArray[np.bool_]:
    codes, names = encode(runtime["name"])
    visible_calls = np.array(
        [get_call_class(name) in SHOWN_CALLS for name in names], dtype=np.bool_
    )
    return visible_calls[codes] if len(names) else np.zeros(0, dtype=np.bool_)


def _create_empty() -> LaneSet:
    empty_column = np.zeros(0, dtype=np.int64)
    return LaneSet(
        empty_column,
        empty_column,
        empty_column,
        compute_offsets(empty_column),
        empty_column,
        empty_column,
        empty_column,
        compute_offsets(empty_column),
    )
