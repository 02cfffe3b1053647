"""Parts of a view: one run with its lanes, steps and idle times."""

from __future__ import annotations

import base64
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.trace.lanes import LaneSet, find_idle_periods
from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.features.timeline.view.model import Lane, RunView, StepMark
from graphviz_dash.features.timeline.view.run import (
    CATEGORIES,
    FIRST_PART,
    ChosenRun,
    format_label,
)
from graphviz_dash.features.torch_compile.timeline_lanes import CompiledStep
from graphviz_dash.units import format_ns, format_percent, format_ratio, pluralize

IDLE_PX: Final = 3.0
IDLE_MIN_NS: Final = 1_000
RANGE_PX: Final = 2.0
MAX_RANGES: Final = 500
MAX_THREADS: Final = 2
"""Limits of CPU thread ranges: minimum width in pixels, ranges per view, threads per run."""
MAX_IDLE: Final = 240
MAX_BOUNDARIES: Final = 80
"""Idle periods and steps marked over all runs: the longest and the nearest."""


class ViewFrame(Struct, frozen=True):
    """Dimensions of a view. Windows are begin and end in ns since the runs' origins."""

    window: tuple[int, int]
    loaded: tuple[int, int]
    """Sent window, with margins on both sides."""
    fit: tuple[int, int]
    """Window that shows the longest step."""
    limits: tuple[int, int]
    """Earliest and latest time of all runs."""
    pixels: int
    """Width of the window in pixels."""
    runs: int

    @property
    def ns_per_pixel(self) -> float:
        """Duration of one pixel."""
        return (self.window[1] - self.window[0]) / self.pixels


def count_slices(inside: slice) -> int:
    """Count the slices in a span."""
    return int(inside.stop - inside.start)


def build_run_view(
    choice: ChosenRun,
    lanes: list[Lane],
    hidden: int,
    frame: ViewFrame,
    baseline: ChosenRun,
    bins: int,
) -> RunView:
    """Build one run of the view; ``hidden`` counts omitted lanes, ``bins`` is 0 for slices."""
    timeline, step = choice.timeline, choice.step
    return RunView(
        run=timeline.run,
        light=timeline.light,
        problem=timeline.problem,
        step=_build_step_mark(step, choice.origin) if step else None,
        boundaries=_select_boundaries(choice, frame),
        lanes=lanes,
        hidden_lanes=hidden,
        idle=_find_idle_periods(choice, frame),
        device_busy=_encode_device_busy(choice, frame, bins) if bins else {},
        summary=summarize_window(choice, frame.window),
        length=format_ns(step.duration_ns) if step else "",
        delta=_format_delta(choice, baseline),
    )


def _select_boundaries(choice: ChosenRun, frame: ViewFrame) -> list[StepMark]:
    """Select steps that touch the loaded window; of many, those nearest to its middle."""
    begin, stop = choice.origin + frame.loaded[0], choice.origin + frame.loaded[1]
    touched = [
        step for step in choice.timeline.steps if step.span_end >= begin and step.span_start <= stop
    ]
    middle = (begin + stop) // 2
    nearest = sorted(touched, key=lambda step: abs(step.span_start + step.span_end - 2 * middle))
    selected = sorted(nearest[: MAX_BOUNDARIES // frame.runs], key=lambda step: step.span_start)
    return [_build_step_mark(step, choice.origin) for step in selected]


def _build_step_mark(step: Step, origin: int) -> StepMark:
    return StepMark(step.index, step.span_start - origin, step.span_end - origin)


def _format_delta(choice: ChosenRun, baseline: ChosenRun) -> str:
    """Format the step's difference; empty for the baseline itself."""
    if choice is baseline or not choice.step or not baseline.step:
        return ""
    run_ns, baseline_ns = choice.length, baseline.length
    if run_ns == baseline_ns or min(run_ns, baseline_ns) <= 0:
        return "equal length" if run_ns == baseline_ns else ""
    word, ratio = (
        ("shorter", baseline_ns / run_ns)
        if run_ns < baseline_ns
        else ("longer", run_ns / baseline_ns)
    )
    return f"{format_ns(abs(run_ns - baseline_ns))} {word} as traced ({format_ratio(ratio)})"


def summarize_window(choice: ChosenRun, window: tuple[int, int]) -> str:
    """Summarize the number and busy time of slices in ``window``."""
    lanes = choice.timeline.lanes
    edges = np.array(window, dtype=np.int64) + choice.origin
    devices = len(lanes.device)
    if not devices:
        return "" if choice.timeline.problem else "no GPU work"
    busy = [int(lanes.device.compute_busy_between(device, edges)[0]) for device in range(devices)]
    rows = sum(
        count_slices(lanes.gpu.get_window(lane, int(edges[0]) + 1, int(edges[1]) - 1))
        for lane in range(len(lanes.gpu))
    )
    share = sum(busy) / (devices * max(1, int(edges[1] - edges[0])))
    suffix = f" on {devices} GPUs" if devices > 1 else ""
    slices = pluralize(rows, "GPU slice")
    return f"{slices}{suffix} · busy {format_ns(sum(busy))} ({format_percent(share)})"


def _find_idle_periods(choice: ChosenRun, frame: ViewFrame) -> dict[int, list[int]]:
    device = choice.timeline.lanes.device
    min_ns = max(IDLE_MIN_NS, int(IDLE_PX * frame.ns_per_pixel))
    begin, stop = choice.origin + frame.loaded[0], choice.origin + frame.loaded[1]
    limit = MAX_IDLE // (frame.runs * max(1, len(device)))
    idle = {}
    for lane in range(len(device)):
        periods = find_idle_periods(device, lane, begin, stop, min_ns)
        longest = sorted(periods, key=lambda period: period[0] - period[1])[:limit]
        idle[int(device.owner[lane])] = [
            instant - choice.origin for period in sorted(longest) for instant in period
        ]
    return idle


def _build_lane(choice: ChosenRun, lanes: LaneSet, lane: int, is_gpu: bool) -> Lane:
    owner, track, sub = int(lanes.owner[lane]), int(lanes.track[lane]), int(lanes.sub[lane])
    label = ""
    if sub == 0 and is_gpu:
        several = len(choice.timeline.lanes.device) > 1
        label = f"GPU {owner} · stream {track}" if several else f"stream {track}"
    elif sub == 0:
        label = f"CPU thread {track}"
    return Lane("gpu" if is_gpu else "cpu", owner, track, sub, label)


def build_slices_lane(
    choice: ChosenRun,
    lanes: LaneSet,
    lane: int,
    is_gpu: bool,
    frame: ViewFrame,
    names: dict[tuple[str, int], int],
) -> Lane:
    """Build a lane of single slices; ``names`` is the view's table and grows."""
    timeline = choice.timeline
    begin = choice.origin + frame.loaded[0]
    inside = lanes.get_window(lane, begin, choice.origin + frame.loaded[1])
    rows, start, end = lanes.row[inside], lanes.start[inside], lanes.end[inside]
    labels = timeline.gpu_labels if is_gpu else timeline.call_labels
    base = _build_lane(choice, lanes, lane, is_gpu)
    return msgspec.structs.replace(
        base,
        gap=(start - np.concatenate(([begin], end[:-1]))).tolist() if len(start) else [],
        dur=(end - start).tolist(),
        name=[
            names.setdefault(labels.texts[code], len(names)) for code in labels.codes[rows].tolist()
        ],
        row=_compute_deltas(rows),
        launch=_compute_deltas(timeline.lanes.links.launch[rows]) if is_gpu else None,
        node=_compute_deltas(timeline.node[rows]) if is_gpu and timeline.node is not None else None,
    )


def _compute_deltas(values: npt.NDArray[np.integer]) -> list[int]:
    deltas: list[int] = np.diff(values.astype(np.int64), prepend=0).tolist()
    return deltas


def build_range_lanes(
    choice: ChosenRun, frame: ViewFrame, names: dict[tuple[str, int], int]
) -> list[Lane]:
    """Build lanes of the busiest threads with the longest visible ranges; ``names`` grows."""
    labels = choice.timeline.range_labels
    begin, stop = choice.origin + frame.loaded[0], choice.origin + frame.loaded[1]
    min_ns = RANGE_PX * frame.ns_per_pixel
    ranges = choice.timeline.ranges.find_outermost(begin, stop, min_ns)
    threads = find_busiest_threads(ranges)
    lanes = []
    for lane in range(len(ranges)):
        thread = (int(ranges.owner[lane]), int(ranges.track[lane]))
        if thread not in threads:
            continue
        inside = ranges.get_span(lane)
        positions = np.arange(inside.start, inside.stop)
        positions = _select_longest(
            positions, ranges.end - ranges.start, MAX_RANGES // frame.runs // len(threads)
        )
        start, end, rows = ranges.start[positions], ranges.end[positions], ranges.row[positions]
        lanes.append(
            Lane(
                "range",
                *thread,
                int(ranges.sub[lane]),
                "" if ranges.sub[lane] else f"thread {thread[1]}: ops",
                gap=(start - np.concatenate(([begin], end[:-1]))).tolist()
                if len(positions)
                else [],
                dur=(end - start).tolist(),
                name=[
                    names.setdefault(labels.texts[code], len(names))
                    for code in labels.codes[rows].tolist()
                ],
                row=_compute_deltas(rows),
            )
        )
    return lanes


def build_compiled_lane(
    choice: ChosenRun,
    compiled: CompiledStep | None,
    frame: ViewFrame,
    names: dict[tuple[str, int], int],
) -> list[Lane]:
    """Build the lane with the longest visible periods; ``names`` grows."""
    if compiled is None:
        return []
    begin, stop = choice.origin + frame.loaded[0], choice.origin + frame.loaded[1]
    length = compiled.end - compiled.start
    is_visible = (compiled.end > begin) & (compiled.start < stop)
    positions = np.flatnonzero(is_visible & (length >= RANGE_PX * frame.ns_per_pixel))
    positions = _select_longest(positions, length, MAX_RANGES // frame.runs)
    start, end = compiled.start[positions], compiled.end[positions]
    return [
        Lane(
            "range",
            0,
            0,
            0,
            "compiled step",
            gap=(start - np.concatenate(([begin], end[:-1]))).tolist() if len(positions) else [],
            dur=(end - start).tolist(),
            name=[
                names.setdefault((format_label(text), FIRST_PART + part), len(names))
                for text, part in (
                    compiled.texts[code] for code in compiled.code[positions].tolist()
                )
            ],
            row=_compute_deltas(positions),
        )
    ]


def _select_longest(at: Ints, length: Ints, limit: int) -> Ints:
    """Return the ``limit`` longest, ascending."""
    longest = np.argsort(-length[at], kind="stable")[:limit]
    return np.asarray(np.sort(at[longest]))


def find_busiest_threads(ranges: LaneSet) -> set[tuple[int, int]]:
    """Find process and thread of the MAX_THREADS busiest threads."""
    totals: dict[tuple[int, int], int] = {}
    for lane in np.flatnonzero(ranges.sub == 0).tolist():
        busy = int(ranges.busy[ranges.bounds[lane + 1]] - ranges.busy[ranges.bounds[lane]])
        totals[int(ranges.owner[lane]), int(ranges.track[lane])] = busy
    return set(sorted(totals, key=lambda thread: -totals[thread])[:MAX_THREADS])


def build_busy_lane(
    choice: ChosenRun, lanes: LaneSet, lane: int, is_gpu: bool, frame: ViewFrame, bins: int
) -> Lane:
    """Build a lane of busy shares; without ``bins`` (0) there are none yet."""
    if not bins:
        return _build_lane(choice, lanes, lane, is_gpu)
    return msgspec.structs.replace(
        _build_lane(choice, lanes, lane, is_gpu),
        busy=_encode_busy(choice, lanes, lane, frame, bins),
        category=_encode_categories(choice, lane, frame, bins) if is_gpu else None,
    )


def _encode_categories(view_run: ChosenRun, lane: int, frame: ViewFrame, bins: int) -> str:
    """Encode the category of the longest slices that start in each bin, in base64.

    A bin without a start continues the previous slice.
    """
    lanes, labels = view_run.timeline.lanes.gpu, view_run.timeline.gpu_labels
    begin, stop = view_run.origin + frame.loaded[0], view_run.origin + frame.loaded[1]
    inside = lanes.get_window(lane, begin, stop)
    start, end = lanes.start[inside], lanes.end[inside]
    edges = compute_bin_edges(frame.loaded, bins) + view_run.origin
    bin_index = np.clip(np.searchsorted(edges, start, side="right") - 1, 0, bins - 1)
    categories = np.array([category for _, category in labels.texts], dtype=np.int64)
    codes = categories[labels.codes[lanes.row[inside]]]
    totals = np.bincount(
        bin_index * len(CATEGORIES) + codes,
        weights=(end - start).astype(np.float64),
        minlength=bins * len(CATEGORIES),
    ).reshape(bins, len(CATEGORIES))
    dominant = totals.argmax(axis=1)
    starts = np.where(totals.any(axis=1), np.arange(bins), 0)
    bin_categories = dominant[np.maximum.accumulate(starts)]
    return base64.b64encode(bin_categories.astype(np.uint8).tobytes()).decode("ascii")


def _encode_device_busy(choice: ChosenRun, frame: ViewFrame, bins: int) -> dict[int, str]:
    device = choice.timeline.lanes.device
    return {
        int(device.owner[lane]): _encode_busy(choice, device, lane, frame, bins)
        for lane in range(len(device))
    }


def _encode_busy(choice: ChosenRun, lanes: LaneSet, lane: int, frame: ViewFrame, bins: int) -> str:
    """Encode busy shares as bytes, in base64."""
    edges = compute_bin_edges(frame.loaded, bins)
    width = np.maximum(np.diff(edges), 1)
    fraction = lanes.compute_busy_between(lane, edges + choice.origin) / width
    level = np.clip(np.rint(fraction * 255), fraction > 0, 255 - (fraction < 1))
    return base64.b64encode(level.astype(np.uint8).tobytes()).decode("ascii")


def compute_bin_edges(window: tuple[int, int], bins: int) -> Ints:
    """Compute edges in ns, shape (bins + 1,)."""
    width, remainder = divmod(window[1] - window[0], bins)
    indices = np.arange(bins + 1, dtype=np.int64)
    return window[0] + indices * width + indices * remainder // bins  # no product beyond 64 bits
