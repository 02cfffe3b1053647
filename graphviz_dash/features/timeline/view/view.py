"""View model of the timeline: a window of one or more runs at a given pixel width.

The origin of each run is the start of its chosen step, so corresponding work has the same position.
Times are integer nanoseconds since that origin.

Lanes have level ``slices`` if slices are few and wide enough to distinguish, otherwise ``busy``,
the exact busy fraction of each pixel. The size of a view is bounded for any trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.trace.lanes import LaneSet
from graphviz_dash.features.timeline.view.difference import RunDifference, build_difference
from graphviz_dash.features.timeline.view.lanes import (
    ViewFrame,
    build_busy_lane,
    build_compiled_lane,
    build_range_lanes,
    build_run_view,
    build_slices_lane,
    count_slices,
)
from graphviz_dash.features.timeline.view.model import TimelineView
from graphviz_dash.features.timeline.view.run import ChosenRun
from graphviz_dash.features.torch_compile.timeline_lanes import CompiledStep

MAX_PIXELS: Final = 4096
MAX_SLICES: Final = 1600
MAX_LANES: Final = 24
"""GPU lanes, and CPU lanes, per run; fewer with many runs. Omitted lanes are counted."""
MAX_VIEW_BYTES: Final = 50_000
MIN_SPAN_NS: Final = 200
MARGIN: Final = 0.25
"""Share of the window loaded on each side, so that short pans need no request."""
MIN_PITCH_PX: Final = 3.0
"""Mean pixels per slice below which a view shows busy time."""
FEW_PITCH_PX: Final = 1.2
FEW_PER_PX: Final = 0.4
"""Maximum slices per pixel for which FEW_PITCH_PX applies."""
_MANY_RUNS: Final = 3
NO_COMPILED_STEPS: Final[Mapping[str, CompiledStep]] = {}


def compute_fit_window(runs: Sequence[ChosenRun]) -> tuple[int, int]:
    """Return the window of the longest chosen step with margins."""
    longest = max((choice.length for choice in runs), default=0)
    longest = max(longest, MIN_SPAN_NS)
    return -longest // 50, longest + longest // 25


def build_timeline_view(
    runs: Sequence[ChosenRun],
    window: tuple[int, int] | None,
    pixels: int,
    differences: Sequence[RunDifference] = (),
    *,
    compiled: Mapping[str, CompiledStep] = NO_COMPILED_STEPS,
    complete: bool = True,
) -> TimelineView:
    """Build the view of ``window`` (None: the fit) at no more than MAX_PIXELS.

    ``differences`` are losses of the first run. ``compiled`` maps runs to their steps. ``complete``
    means that no data is still being computed.
    """
    fit = compute_fit_window(runs)
    limits = _compute_limits(runs, fit)
    begin, stop = _clip_window(window or fit, limits)
    pixels = max(1, min(pixels, MAX_PIXELS))
    margin = int((stop - begin) * MARGIN)
    loaded = (begin - margin, stop + margin)
    visible = [_select_lanes(choice, len(runs)) for choice in runs]
    extra = _Extra(differences, compiled)
    frame = ViewFrame((begin, stop), loaded, fit, limits, pixels, len(runs))
    if _has_room_for_slices(runs, visible, frame):
        view = _build_view(runs, visible, frame, "slices", 0, extra)
        if _measure_size(view) <= MAX_VIEW_BYTES:
            return msgspec.structs.replace(view, complete=complete)
    bins = round(pixels * (1 + 2 * MARGIN))
    skeleton = _build_view(runs, visible, frame, "busy", 0, extra)
    # GPU lanes also have a category in each bin.
    bytes_by_kind = {"range": 0, "cpu": 1, "gpu": 2}
    lanes = sum(bytes_by_kind[lane.kind] for run in skeleton.runs for lane in run.lanes)
    lanes += sum(len(choice.timeline.lanes.device) for choice in runs)
    # A bin is one byte, 4/3 bytes in base64; each lane may need padding, a name and quotes.
    max_bins = (MAX_VIEW_BYTES - _measure_size(skeleton) - 64) * 3 // (4 * max(1, lanes)) - 20
    view = _build_view(runs, visible, frame, "busy", max(1, min(bins, max_bins)), extra)
    return msgspec.structs.replace(view, complete=complete)


def _measure_size(view: TimelineView) -> int:
    return len(msgspec.json.encode(view))


class _Extra(Struct, frozen=True):
    """Content of a view besides slices."""

    differences: Sequence[RunDifference]
    compiled: Mapping[str, CompiledStep]


class _VisibleLanes(Struct, frozen=True):
    gpu: list[int]
    cpu: list[int]
    hidden: int


def _compute_limits(runs: Sequence[ChosenRun], fit: tuple[int, int]) -> tuple[int, int]:
    begins = [choice.timeline.begin - choice.origin for choice in runs] + [fit[0]]
    ends = [choice.timeline.end - choice.origin for choice in runs] + [fit[1]]
    return min(begins), max(ends)


def _clip_window(window: tuple[int, int], limits: tuple[int, int]) -> tuple[int, int]:
    """Clip to at least MIN_SPAN_NS and at most one length beyond ``limits``."""
    longest = limits[1] - limits[0]
    span = min(max(window[1] - window[0], MIN_SPAN_NS), 2 * longest)
    begin = min(max(window[0], limits[0] - longest), limits[1] + longest - span)
    return begin, begin + span


def _select_lanes(choice: ChosenRun, runs: int) -> _VisibleLanes:
    lanes = choice.timeline.lanes
    limit = MAX_LANES if runs < _MANY_RUNS else max(2, 2 * MAX_LANES // runs)
    gpu, cpu = (_select_busiest(lane_set, limit) for lane_set in (lanes.gpu, lanes.cpu))
    return _VisibleLanes(gpu, cpu, len(lanes.gpu) - len(gpu) + len(lanes.cpu) - len(cpu))


def _select_busiest(lanes: LaneSet, limit: int) -> list[int]:
    """Return the ``limit`` busiest lanes in their order."""
    if len(lanes) <= limit:
        return list(range(len(lanes)))
    total = lanes.busy[lanes.bounds[1:]] - lanes.busy[lanes.bounds[:-1]]
    return sorted(int(lane) for lane in np.argsort(-total, kind="stable")[:limit])


def _has_room_for_slices(
    runs: Sequence[ChosenRun], visible: list[_VisibleLanes], frame: ViewFrame
) -> bool:
    """True if slices are few and distinguishable in every GPU lane."""
    sent = seen = 0
    pitch = float("inf")
    for choice, lanes in zip(runs, visible, strict=True):
        for lane_set, lane, is_gpu in _list_lanes(choice, lanes):
            begin, stop = choice.origin + frame.loaded[0], choice.origin + frame.loaded[1]
            sent += count_slices(lane_set.get_window(lane, begin, stop))
            if sent > MAX_SLICES:
                return False
            if is_gpu:
                slice_count, extent = _measure_spread(lane_set, lane, choice.origin, frame)
                seen += slice_count
                # A few slices are distinguishable at any distance.
                pitch = min(pitch, extent / slice_count if slice_count >= 16 else pitch)
    is_sparse = seen <= FEW_PER_PX * frame.pixels
    return pitch >= (FEW_PITCH_PX if is_sparse else MIN_PITCH_PX) * frame.ns_per_pixel


def _measure_spread(lanes: LaneSet, lane: int, origin: int, frame: ViewFrame) -> tuple[int, int]:
    """Return number and extent in ns of the visible slices."""
    begin, stop = origin + frame.window[0], origin + frame.window[1]
    inside = lanes.get_window(lane, begin, stop)
    if not count_slices(inside):
        return 0, 0
    first, last = int(lanes.start[inside.start]), int(lanes.end[inside.stop - 1])
    return count_slices(inside), min(last, stop) - max(first, begin)


def _list_lanes(choice: ChosenRun, visible: _VisibleLanes) -> list[tuple[LaneSet, int, bool]]:
    lanes = choice.timeline.lanes
    return [(lanes.cpu, lane, False) for lane in visible.cpu] + [
        (lanes.gpu, lane, True) for lane in visible.gpu
    ]


def _build_view(
    runs: Sequence[ChosenRun],
    visible: list[_VisibleLanes],
    frame: ViewFrame,
    level: Literal["slices", "busy"],
    bins: int,
    extra: _Extra,
) -> TimelineView:
    names: dict[tuple[str, int], int] = {}
    views = []
    for choice, lanes in zip(runs, visible, strict=True):
        lane_views = [
            build_slices_lane(choice, lane_set, lane, is_gpu, frame, names)
            if level == "slices"
            else build_busy_lane(choice, lane_set, lane, is_gpu, frame, bins)
            for lane_set, lane, is_gpu in _list_lanes(choice, lanes)
        ]
        compiled_step = extra.compiled.get(choice.timeline.run)
        lane_views = (
            build_compiled_lane(choice, compiled_step, frame, names)
            + build_range_lanes(choice, frame, names)
            + lane_views
        )
        views.append(build_run_view(choice, lane_views, lanes.hidden, frame, runs[0], bins))
    return TimelineView(
        level=level,
        window=frame.window,
        loaded=frame.loaded,
        fit=frame.fit,
        limits=frame.limits,
        bins=bins,
        names=list(names),
        runs=views,
        differences=[
            build_difference(run_difference, frame, len(extra.differences))
            for run_difference in extra.differences
        ],
    )
