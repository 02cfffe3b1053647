"""The parts of a view: one run with its lanes, steps and idle times, in one frame."""

from __future__ import annotations

import base64
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.trace.lanes import LaneSet, idle_periods
from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.features.timeline.view.model import Lane, RunView, StepMark
from graphviz_dash.features.timeline.view.run import FIRST_PART, ChosenRun, label
from graphviz_dash.features.torch_compile.timeline_lanes import CompiledStep
from graphviz_dash.units import format_ns, format_percent, format_ratio

IDLE_PX: Final = 3.0
IDLE_MIN_NS: Final = 1_000
RANGE_PX: Final = 2.0
MAX_RANGES: Final = 500
MAX_THREADS: Final = 2
"""Ranges of CPU threads: how wide they must be, how many one view has, of how many threads of a
run."""
MAX_IDLE: Final = 240
MAX_BOUNDARIES: Final = 80
"""Idle periods and steps that one view marks, over all its runs: the longest, and the nearest."""


class Frame(Struct, frozen=True):
    """What a view is made for. Windows are begin and end in ns since the runs' origins."""

    window: tuple[int, int]
    """What is seen."""
    loaded: tuple[int, int]
    """What is sent: some air on either side."""
    fit: tuple[int, int]
    """What shows the longest step."""
    limits: tuple[int, int]
    """The earliest and the latest time of all runs."""
    pixels: int
    """Width of the window."""
    runs: int
    """How many runs share the view."""

    @property
    def ns_per_pixel(self) -> float:
        """Time that one pixel stands for."""
        return (self.window[1] - self.window[0]) / self.pixels


def count(inside: slice) -> int:
    """How many slices a span of a lane set holds."""
    return int(inside.stop - inside.start)


def run_view(
    chosen: ChosenRun, lanes: list[Lane], hidden: int, frame: Frame, baseline: ChosenRun, bins: int
) -> RunView:
    """One run of the view, ``hidden`` lanes left out; ``bins`` of busy shares, 0 for slices."""
    timeline, step = chosen.timeline, chosen.step
    return RunView(
        run=timeline.run,
        light=timeline.light,
        problem=timeline.problem,
        step=_relative(step, chosen.origin) if step else None,
        boundaries=_boundaries(chosen, frame),
        lanes=lanes,
        hidden_lanes=hidden,
        idle=_idle(chosen, frame),
        device_busy=_device_busy(chosen, frame, bins) if bins else {},
        summary=between(chosen, frame.window),
        length=format_ns(step.duration_ns) if step else "",
        delta=_delta(chosen, baseline),
    )


def _boundaries(chosen: ChosenRun, frame: Frame) -> list[StepMark]:
    """The steps that the loaded window touches; of too many, those nearest to its middle."""
    begin, stop = chosen.origin + frame.loaded[0], chosen.origin + frame.loaded[1]
    touched = [
        step for step in chosen.timeline.steps if step.span_end >= begin and step.span_start <= stop
    ]
    middle = (begin + stop) // 2
    nearest = sorted(touched, key=lambda step: abs(step.span_start + step.span_end - 2 * middle))
    kept = sorted(nearest[: MAX_BOUNDARIES // frame.runs], key=lambda step: step.span_start)
    return [_relative(step, chosen.origin) for step in kept]


def _relative(step: Step, origin: int) -> StepMark:
    return StepMark(step.index, step.span_start - origin, step.span_end - origin)


def _delta(chosen: ChosenRun, baseline: ChosenRun) -> str:
    """The step's length against the baseline's, in words; empty for the baseline itself."""
    if chosen is baseline or not chosen.step or not baseline.step:
        return ""
    own, other = chosen.length, baseline.length
    if own == other or min(own, other) <= 0:
        return "as long" if own == other else ""
    word, ratio = ("shorter", other / own) if own < other else ("longer", own / other)
    return f"{format_ns(abs(own - other))} {word} as traced ({format_ratio(ratio)})"


def between(chosen: ChosenRun, window: tuple[int, int]) -> str:
    """What a run's GPUs do in ``window``, in words: slices that touch it, and their busy time."""
    lanes = chosen.timeline.lanes
    edges = np.array(window, dtype=np.int64) + chosen.origin
    devices = len(lanes.device)
    if not devices:
        return "" if chosen.timeline.problem else "no GPU work"
    busy = [int(lanes.device.busy_between(device, edges)[0]) for device in range(devices)]
    rows = sum(
        count(lanes.gpu.window(lane, int(edges[0]) + 1, int(edges[1]) - 1))
        for lane in range(len(lanes.gpu))
    )
    share = sum(busy) / (devices * max(1, int(edges[1] - edges[0])))
    many = f" on {devices} GPUs" if devices > 1 else ""
    return f"{rows:,} GPU slices{many} · busy {format_ns(sum(busy))} ({format_percent(share)})"


def _idle(chosen: ChosenRun, frame: Frame) -> dict[int, list[int]]:
    device = chosen.timeline.lanes.device
    at_least = max(IDLE_MIN_NS, int(IDLE_PX * frame.ns_per_pixel))
    begin, stop = chosen.origin + frame.loaded[0], chosen.origin + frame.loaded[1]
    most = MAX_IDLE // (frame.runs * max(1, len(device)))
    idle = {}
    for lane in range(len(device)):
        periods = idle_periods(device, lane, begin, stop, at_least)
        longest = sorted(periods, key=lambda period: period[0] - period[1])[:most]
        idle[int(device.owner[lane])] = [
            instant - chosen.origin for period in sorted(longest) for instant in period
        ]
    return idle


def _lane(chosen: ChosenRun, lanes: LaneSet, lane: int, is_gpu: bool) -> Lane:
    owner, track, sub = int(lanes.owner[lane]), int(lanes.track[lane]), int(lanes.sub[lane])
    label = ""
    if sub == 0 and is_gpu:
        several = len(chosen.timeline.lanes.device) > 1
        label = f"GPU {owner} · stream {track}" if several else f"stream {track}"
    elif sub == 0:
        label = f"CPU thread {track}"
    return Lane("gpu" if is_gpu else "cpu", owner, track, sub, label)


def slices_lane(
    chosen: ChosenRun,
    lanes: LaneSet,
    lane: int,
    is_gpu: bool,
    frame: Frame,
    names: dict[tuple[str, int], int],
) -> Lane:
    """A lane with its slices one by one; ``names`` is the view's table and grows."""
    timeline = chosen.timeline
    begin = chosen.origin + frame.loaded[0]
    inside = lanes.window(lane, begin, chosen.origin + frame.loaded[1])
    rows, start, end = lanes.row[inside], lanes.start[inside], lanes.end[inside]
    labels = timeline.gpu_labels if is_gpu else timeline.call_labels
    base = _lane(chosen, lanes, lane, is_gpu)
    return msgspec.structs.replace(
        base,
        gap=(start - np.concatenate(([begin], end[:-1]))).tolist() if len(start) else [],
        dur=(end - start).tolist(),
        name=[
            names.setdefault(labels.texts[code], len(names)) for code in labels.codes[rows].tolist()
        ],
        row=_deltas(rows),
        launch=_deltas(timeline.lanes.links.launch[rows]) if is_gpu else None,
        node=_deltas(timeline.node[rows]) if is_gpu and timeline.node is not None else None,
    )


def _deltas(values: npt.NDArray[np.integer]) -> list[int]:
    deltas: list[int] = np.diff(values.astype(np.int64), prepend=0).tolist()
    return deltas


def range_lanes(chosen: ChosenRun, frame: Frame, names: dict[tuple[str, int], int]) -> list[Lane]:
    """What the busiest CPU threads are in, lane by lane: of all ranges that are wide enough to be
    seen the longest; ``names`` is the view's table and grows."""
    labels = chosen.timeline.range_labels
    begin, stop = chosen.origin + frame.loaded[0], chosen.origin + frame.loaded[1]
    least = RANGE_PX * frame.ns_per_pixel
    ranges = chosen.timeline.ranges.outermost(begin, stop, least)
    threads = busiest_threads(ranges)
    lanes = []
    for lane in range(len(ranges)):
        thread = (int(ranges.owner[lane]), int(ranges.track[lane]))
        if thread not in threads:
            continue
        inside = ranges.span(lane)
        at = np.arange(inside.start, inside.stop)
        at = _longest(at, ranges.end - ranges.start, MAX_RANGES // frame.runs // len(threads))
        start, end, rows = ranges.start[at], ranges.end[at], ranges.row[at]
        lanes.append(
            Lane(
                "range",
                *thread,
                int(ranges.sub[lane]),
                "" if ranges.sub[lane] else f"thread {thread[1]}: ops",
                gap=(start - np.concatenate(([begin], end[:-1]))).tolist() if len(at) else [],
                dur=(end - start).tolist(),
                name=[
                    names.setdefault(labels.texts[code], len(names))
                    for code in labels.codes[rows].tolist()
                ],
                row=_deltas(rows),
            )
        )
    return lanes


def compiled_lane(
    chosen: ChosenRun,
    compiled: CompiledStep | None,
    frame: Frame,
    names: dict[tuple[str, int], int],
) -> list[Lane]:
    """What each stretch of the chosen step is for, where compiled code runs in it: of all stretches
    that are wide enough to be seen the longest; ``names`` is the view's table and grows."""
    if compiled is None:
        return []
    begin, stop = chosen.origin + frame.loaded[0], chosen.origin + frame.loaded[1]
    length = compiled.end - compiled.start
    seen = (compiled.end > begin) & (compiled.start < stop)
    at = np.flatnonzero(seen & (length >= RANGE_PX * frame.ns_per_pixel))
    at = _longest(at, length, MAX_RANGES // frame.runs)
    start, end = compiled.start[at], compiled.end[at]
    return [
        Lane(
            "range",
            0,
            0,
            0,
            "compiled step",
            gap=(start - np.concatenate(([begin], end[:-1]))).tolist() if len(at) else [],
            dur=(end - start).tolist(),
            name=[
                names.setdefault((label(text), FIRST_PART + part), len(names))
                for text, part in (compiled.texts[code] for code in compiled.code[at].tolist())
            ],
            row=_deltas(at),
        )
    ]


def _longest(at: Ints, length: Ints, most: int) -> Ints:
    """The ``most`` longest of the places ``at``, ascending."""
    longest = np.argsort(-length[at], kind="stable")[:most]
    return np.asarray(np.sort(at[longest]))


def busiest_threads(ranges: LaneSet) -> set[tuple[int, int]]:
    """Process and thread of the MAX_THREADS that are longest in any range."""
    totals: dict[tuple[int, int], int] = {}
    for lane in np.flatnonzero(ranges.sub == 0).tolist():
        busy = int(ranges.busy[ranges.bounds[lane + 1]] - ranges.busy[ranges.bounds[lane]])
        totals[int(ranges.owner[lane]), int(ranges.track[lane])] = busy
    return set(sorted(totals, key=lambda thread: -totals[thread])[:MAX_THREADS])


def busy_lane(
    chosen: ChosenRun, lanes: LaneSet, lane: int, is_gpu: bool, frame: Frame, bins: int
) -> Lane:
    """A lane with the busy share of ``bins`` bins (0: none yet)."""
    if not bins:
        return _lane(chosen, lanes, lane, is_gpu)
    return msgspec.structs.replace(
        _lane(chosen, lanes, lane, is_gpu), busy=_busy(chosen, lanes, lane, frame, bins)
    )


def _device_busy(chosen: ChosenRun, frame: Frame, bins: int) -> dict[int, str]:
    device = chosen.timeline.lanes.device
    return {
        int(device.owner[lane]): _busy(chosen, device, lane, frame, bins)
        for lane in range(len(device))
    }


def _busy(chosen: ChosenRun, lanes: LaneSet, lane: int, frame: Frame, bins: int) -> str:
    """The busy share of each bin as a byte, in base64."""
    edges = bin_edges(frame.loaded, bins)
    width = np.maximum(np.diff(edges), 1)
    fraction = lanes.busy_between(lane, edges + chosen.origin) / width
    level = np.clip(np.rint(fraction * 255), fraction > 0, 255 - (fraction < 1))
    return base64.b64encode(level.astype(np.uint8).tobytes()).decode("ascii")


def bin_edges(window: tuple[int, int], bins: int) -> Ints:
    """Edges in ns of ``bins`` bins over ``window``, shape (bins + 1,), as even as can be."""
    whole, rest = divmod(window[1] - window[0], bins)
    places = np.arange(bins + 1, dtype=np.int64)
    return window[0] + places * whole + places * rest // bins  # no product beyond 64 bits
