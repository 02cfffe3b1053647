"""The timeline's view model: what a window of two or more runs looks like at a number of pixels.

Each run has its own origin, the start of its chosen step, so that the same work of two runs lies at
the same place of one shared axis. Times are integer nanoseconds since that origin.

A view is drawn at one of two levels, the same for all its lanes: ``slices`` when they are few and
wide enough to be told apart, else ``busy``, the exact busy fraction of each pixel. What is sent is
bounded whatever the size of the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.trace.lanes import LaneSet
from graphviz_dash.features.timeline.view.difference import RunDifference, difference
from graphviz_dash.features.timeline.view.lanes import (
    Frame,
    busy_lane,
    compiled_lane,
    count,
    range_lanes,
    run_view,
    slices_lane,
)
from graphviz_dash.features.timeline.view.model import TimelineView
from graphviz_dash.features.timeline.view.run import ChosenRun
from graphviz_dash.features.torch_compile.timeline_lanes import CompiledStep

MAX_PIXELS: Final = 4096
MAX_SLICES: Final = 1600
MAX_LANES: Final = 24
"""GPU lanes shown of one run, and CPU lanes; fewer beside many runs. The others are counted."""
MAX_VIEW_BYTES: Final = 50_000
MIN_SPAN_NS: Final = 200
MARGIN: Final = 0.25
"""Of the window's length, loaded on each side of it, so that a short pan needs no waiting."""
MIN_PITCH_PX: Final = 3.0
"""Mean room of a slice, from its start to the next one's, below which a view shows busy time ..."""
FEW_PITCH_PX: Final = 1.2
FEW_PER_PX: Final = 0.4
"""... unless the view has few slices for its width: then this much room is enough."""
_MANY_RUNS: Final = 3
NOTHING_COMPILED: Final[Mapping[str, CompiledStep]] = {}


def fit_window(runs: Sequence[ChosenRun]) -> tuple[int, int]:
    """The window that shows the longest chosen step with some air (whole traces without steps)."""
    longest = max((chosen.length for chosen in runs), default=0)
    longest = max(longest, MIN_SPAN_NS)
    return -longest // 50, longest + longest // 25


def timeline_view(
    runs: Sequence[ChosenRun],
    window: tuple[int, int] | None,
    pixels: int,
    differences: Sequence[RunDifference] = (),
    *,
    compiled: Mapping[str, CompiledStep] = NOTHING_COMPILED,
    complete: bool = True,
) -> TimelineView:
    """What ``window`` shows of ``runs`` on ``pixels`` (at most MAX_PIXELS); None: the fit.

    ``differences`` is what the first of them loses against others; ``compiled`` by run what its
    step is for, where compiled code runs in it; ``complete``: nothing about the runs is still to be
    computed.
    """
    fit = fit_window(runs)
    limits = _limits(runs, fit)
    begin, stop = _bounded(window or fit, limits)
    pixels = max(1, min(pixels, MAX_PIXELS))
    air = int((stop - begin) * MARGIN)
    loaded = (begin - air, stop + air)
    shown = [_shown_lanes(chosen, len(runs)) for chosen in runs]
    extra = _Extra(differences, compiled)
    frame = Frame((begin, stop), loaded, fit, limits, pixels, len(runs))
    if _can_show_slices(runs, shown, frame):
        view = _build(runs, shown, frame, "slices", 0, extra)
        if _size(view) <= MAX_VIEW_BYTES:
            return msgspec.structs.replace(view, complete=complete)
    bins = round(pixels * (1 + 2 * MARGIN))
    empty = _build(runs, shown, frame, "busy", 0, extra)
    lanes = sum(lane.kind != "range" for run in empty.runs for lane in run.lanes)
    lanes += sum(len(chosen.timeline.lanes.device) for chosen in runs)
    # A bin is a byte, four thirds of one in base64; each lane may need padding and its own quotes.
    room = (MAX_VIEW_BYTES - _size(empty) - 64) * 3 // (4 * max(1, lanes)) - 16
    view = _build(runs, shown, frame, "busy", max(1, min(bins, room)), extra)
    return msgspec.structs.replace(view, complete=complete)


def _size(view: TimelineView) -> int:
    return len(msgspec.json.encode(view))


class _Extra(Struct, frozen=True):
    """What is shown besides the slices of traces."""

    differences: Sequence[RunDifference]
    compiled: Mapping[str, CompiledStep]


class _Shown(Struct, frozen=True):
    gpu: list[int]
    cpu: list[int]
    hidden: int


def _limits(runs: Sequence[ChosenRun], fit: tuple[int, int]) -> tuple[int, int]:
    begins = [chosen.timeline.begin - chosen.origin for chosen in runs] + [fit[0]]
    ends = [chosen.timeline.end - chosen.origin for chosen in runs] + [fit[1]]
    return min(begins), max(ends)


def _bounded(window: tuple[int, int], limits: tuple[int, int]) -> tuple[int, int]:
    """``window`` no shorter than MIN_SPAN_NS and no further out than one length beyond limits."""
    longest = limits[1] - limits[0]
    span = min(max(window[1] - window[0], MIN_SPAN_NS), 2 * longest)
    begin = min(max(window[0], limits[0] - longest), limits[1] + longest - span)
    return begin, begin + span


def _shown_lanes(chosen: ChosenRun, runs: int) -> _Shown:
    lanes = chosen.timeline.lanes
    most = MAX_LANES if runs < _MANY_RUNS else max(2, 2 * MAX_LANES // runs)
    gpu, cpu = (_busiest(each, most) for each in (lanes.gpu, lanes.cpu))
    return _Shown(gpu, cpu, len(lanes.gpu) - len(gpu) + len(lanes.cpu) - len(cpu))


def _busiest(lanes: LaneSet, most: int) -> list[int]:
    """The lanes that are shown, in their order: all, or the ``most`` busiest."""
    if len(lanes) <= most:
        return list(range(len(lanes)))
    total = lanes.busy[lanes.bounds[1:]] - lanes.busy[lanes.bounds[:-1]]
    return sorted(int(lane) for lane in np.argsort(-total, kind="stable")[:most])


def _can_show_slices(runs: Sequence[ChosenRun], shown: list[_Shown], frame: Frame) -> bool:
    """Few enough to send, and in every GPU lane far enough apart to be told from each other."""
    sent = seen = 0
    pitch = float("inf")
    for chosen, lanes in zip(runs, shown, strict=True):
        for lane_set, lane, is_gpu in _each(chosen, lanes):
            begin, stop = chosen.origin + frame.loaded[0], chosen.origin + frame.loaded[1]
            sent += count(lane_set.window(lane, begin, stop))
            if sent > MAX_SLICES:
                return False
            if is_gpu:
                many, extent = _spread(lane_set, lane, chosen.origin, frame)
                seen += many
                # A handful of slices is told apart however close they are.
                pitch = min(pitch, extent / many if many >= 16 else pitch)
    few = seen <= FEW_PER_PX * frame.pixels
    return pitch >= (FEW_PITCH_PX if few else MIN_PITCH_PX) * frame.ns_per_pixel


def _spread(lanes: LaneSet, lane: int, origin: int, frame: Frame) -> tuple[int, int]:
    """How many slices the window shows of a lane, and from where to where they reach, in ns."""
    begin, stop = origin + frame.window[0], origin + frame.window[1]
    inside = lanes.window(lane, begin, stop)
    if not count(inside):
        return 0, 0
    first, last = int(lanes.start[inside.start]), int(lanes.end[inside.stop - 1])
    return count(inside), min(last, stop) - max(first, begin)


def _each(chosen: ChosenRun, shown: _Shown) -> list[tuple[LaneSet, int, bool]]:
    lanes = chosen.timeline.lanes
    return [(lanes.cpu, lane, False) for lane in shown.cpu] + [
        (lanes.gpu, lane, True) for lane in shown.gpu
    ]


def _build(
    runs: Sequence[ChosenRun],
    shown: list[_Shown],
    frame: Frame,
    level: Literal["slices", "busy"],
    bins: int,
    extra: _Extra,
) -> TimelineView:
    names: dict[tuple[str, int], int] = {}
    views = []
    for chosen, lanes in zip(runs, shown, strict=True):
        drawn = [
            slices_lane(chosen, lane_set, lane, is_gpu, frame, names)
            if level == "slices"
            else busy_lane(chosen, lane_set, lane, is_gpu, frame, bins)
            for lane_set, lane, is_gpu in _each(chosen, lanes)
        ]
        own = extra.compiled.get(chosen.timeline.run)
        drawn = compiled_lane(chosen, own, frame, names) + range_lanes(chosen, frame, names) + drawn
        views.append(run_view(chosen, drawn, lanes.hidden, frame, runs[0], bins))
    return TimelineView(
        level=level,
        window=frame.window,
        loaded=frame.loaded,
        fit=frame.fit,
        limits=frame.limits,
        bins=bins,
        names=list(names),
        runs=views,
        differences=[difference(each, frame, len(extra.differences)) for each in extra.differences],
    )
