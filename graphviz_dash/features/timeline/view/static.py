"""Static drawing of a typical step of each run on a common time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from graphviz_dash.analysis.trace.api_calls import CallClass
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.analysis.trace.lanes import LaneSet
from graphviz_dash.charts.palette import BASELINE, CATEGORY_SHADES, GRAPH_LAUNCH, SAVED
from graphviz_dash.charts.shades import IDLE, Shade
from graphviz_dash.charts.static.svg import (
    MUTED,
    RULE,
    WIDTH,
    build_drawing,
    build_legend,
    build_text,
    compute_round_numbers,
    css_colour,
    truncate_text,
)
from graphviz_dash.features.timeline.view.run import CALLS, CATEGORIES, ChosenRun, Labels
from graphviz_dash.units import format_ns

_LEFT: Final = 150.0
_RIGHT_MARGIN: Final = 30.0
_LANE: Final = 16.0
_MAX_LANES: Final = 8
"""Lanes of each kind per run: the busiest."""
_MERGE_DISTANCE: Final = 0.25
"""In pixels; nearer slices of one colour are drawn as one."""

_CALL_SHADES: Final = {
    CallClass.KERNEL_LAUNCH: BASELINE,
    CallClass.GRAPH_LAUNCH: GRAPH_LAUNCH,
    CallClass.COPY: CATEGORY_SHADES[Category.MEMORY],
    CallClass.SYNCHRONISE: IDLE,
    CallClass.MEMORY: SAVED,
}


def draw_timeline(runs: Sequence[ChosenRun]) -> str | None:
    """Draw exactly one step of each run; None without a trace. Very narrow slices are merged."""
    drawable = [choice for choice in runs if choice.timeline.problem is None]
    if not drawable:
        return None
    longest = max(*(choice.length for choice in drawable), 1)
    scale = (WIDTH - _LEFT - _RIGHT_MARGIN) / longest
    legend_shades: dict[str, Shade] = {}
    parts: list[str] = []
    y = 14.0
    for choice in drawable:
        title, top = f"{choice.timeline.run}: {format_ns(choice.length)}", y + 8
        parts.append(build_text(0, y, truncate_text(title, WIDTH / 2, 13), "strong"))
        y += 8
        for lanes, name in (
            (choice.timeline.lanes.gpu, "stream"),
            (choice.timeline.lanes.cpu, "thread"),
        ):
            labels = choice.timeline.gpu_labels if name == "stream" else choice.timeline.call_labels
            for lane in _find_busiest_lanes(lanes):
                lane_name = "" if lanes.sub[lane] else f"{name} {int(lanes.track[lane])}"
                parts.append(build_text(_LEFT - 8, y + 12, lane_name, "tiny", "end"))
                window = _get_window(choice)
                for label, shade, path in _build_paths(lanes, lane, labels, window, scale, y):
                    legend_shades.setdefault(label, shade)
                    parts.append(f'<path d="{path}" style="fill:{css_colour(shade)}"/>')
                rule = f"M{_LEFT:g} {y + _LANE:g}H{WIDTH:g}"
                parts.append(f'<path d="{rule}" style="stroke:{css_colour(RULE)}"/>')
                y += _LANE + 2
        end = _LEFT + choice.length * scale
        mark = f"stroke:{css_colour(MUTED)};stroke-dasharray:2 2"
        parts.append(f'<path d="M{end:.1f} {top:g}V{y:g}" style="{mark}"/>')
        y += 20
    parts += _draw_axis(longest, scale, y - 8)
    entries, below = build_legend(list(legend_shades.items()), _LEFT, y + 32, WIDTH)
    description = "One traced step of each run on one clock"
    return build_drawing(WIDTH, below - 8, description, "".join(parts) + entries)


def _get_window(choice: ChosenRun) -> tuple[int, int]:
    begin = choice.step.start if choice.step is not None else choice.origin
    return begin, begin + choice.length


def _find_busiest_lanes(lanes: LaneSet) -> list[int]:
    total = lanes.busy[lanes.bounds[1:]] - lanes.busy[lanes.bounds[:-1]]
    return sorted(int(lane) for lane in np.argsort(-total, kind="stable")[:_MAX_LANES])


def _build_paths(
    lanes: LaneSet, lane: int, labels: Labels, window: tuple[int, int], scale: float, y: float
) -> Iterator[tuple[str, Shade, str]]:
    """Yield the area of each colour as a path."""
    inside = lanes.get_window(lane, window[0] + 1, window[1] - 1)
    if inside.start == inside.stop:
        return
    rows = lanes.row[inside]
    kinds = np.array([kind for _, kind in labels.texts], dtype=np.int64)[labels.codes[rows]]
    start = (np.maximum(lanes.start[inside], window[0]) - window[0]) * scale + _LEFT
    end = (np.minimum(lanes.end[inside], window[1]) - window[0]) * scale + _LEFT
    for kind in np.unique(kinds).tolist():
        label, shade = _get_legend_entry(kind)
        is_kind = kinds == kind
        first, last = start[is_kind], end[is_kind]
        breaks = np.flatnonzero(first[1:] - last[:-1] > _MERGE_DISTANCE) + 1
        begins = first[np.concatenate(([0], breaks))]
        ends = last[np.concatenate((breaks - 1, [len(last) - 1]))]
        bars = (
            f"M{left:.1f} {y + 2:g}h{max(right - left, 0.2):.1f}v12h-{max(right - left, 0.2):.1f}z"
            for left, right in zip(begins.tolist(), ends.tolist(), strict=True)
        )
        yield label, shade, "".join(bars)


def _get_legend_entry(kind: int) -> tuple[str, Shade]:
    if kind < len(CATEGORIES):
        return CATEGORIES[kind].value, CATEGORY_SHADES[CATEGORIES[kind]]
    call = CALLS[kind - len(CATEGORIES)]
    return f"call: {call.value}", _CALL_SHADES.get(call, MUTED)


def _draw_axis(longest: int, scale: float, y: float) -> Iterator[str]:
    yield f'<path d="M{_LEFT:g} {y:g}H{WIDTH:g}" style="stroke:{css_colour(MUTED)}"/>'
    for ns in compute_round_numbers(longest):
        yield build_text(_LEFT + ns * scale, y + 14, format_ns(ns) if ns else "0", "axis", "middle")
