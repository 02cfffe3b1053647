"""A typical step of each run, below each other on one clock, as a drawing that stands still."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from graphviz_dash.analysis.trace.api_calls import CallClass
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.analysis.trace.lanes import LaneSet
from graphviz_dash.charts.palette import BASELINE, CATEGORY, GRAPH_LAUNCH, SAVED
from graphviz_dash.charts.shades import IDLE, Shade
from graphviz_dash.charts.static.svg import (
    MUTED,
    RULE,
    WIDTH,
    colour,
    drawing,
    fitted,
    legend,
    round_numbers,
    words,
)
from graphviz_dash.features.timeline.view.run import CALLS, CATEGORIES, ChosenRun, Labels
from graphviz_dash.units import format_ns

_LEFT: Final = 150.0
_AIR: Final = 30.0
_LANE: Final = 16.0
_MOST_LANES: Final = 8
"""Lanes of each kind of one run: the busiest."""
_JOIN: Final = 0.25
"""Slices of one colour closer than so many pixels are drawn as one."""

_CALL: Final = {
    CallClass.KERNEL_LAUNCH: BASELINE,
    CallClass.GRAPH_LAUNCH: GRAPH_LAUNCH,
    CallClass.COPY: CATEGORY[Category.MEMORY],
    CallClass.SYNCHRONISE: IDLE,
    CallClass.MEMORY: SAVED,
}


def static_timeline(runs: Sequence[ChosenRun]) -> str | None:
    """The drawing; None when no run has a trace. All that a step's time holds is drawn, and nothing
    after it; slices too narrow to be told apart are merged."""
    shown = [chosen for chosen in runs if chosen.timeline.problem is None]
    if not shown:
        return None
    longest = max(*(chosen.length for chosen in shown), 1)
    scale = (WIDTH - _LEFT - _AIR) / longest
    used: dict[str, Shade] = {}
    parts: list[str] = []
    y = 14.0
    for chosen in shown:
        title, top = f"{chosen.timeline.run}: {format_ns(chosen.length)}", y + 8
        parts.append(words(0, y, fitted(title, WIDTH / 2, 13), "strong"))
        y += 8
        for lanes, name in (
            (chosen.timeline.lanes.gpu, "stream"),
            (chosen.timeline.lanes.cpu, "thread"),
        ):
            labels = chosen.timeline.gpu_labels if name == "stream" else chosen.timeline.call_labels
            for lane in _busiest(lanes):
                said = "" if lanes.sub[lane] else f"{name} {int(lanes.track[lane])}"
                parts.append(words(_LEFT - 8, y + 12, said, "tiny", "end"))
                window = _window(chosen)
                for label, shade, path in _paths(lanes, lane, labels, window, scale, y):
                    used.setdefault(label, shade)
                    parts.append(f'<path d="{path}" style="fill:{colour(shade)}"/>')
                rule = f"M{_LEFT:g} {y + _LANE:g}H{WIDTH:g}"
                parts.append(f'<path d="{rule}" style="stroke:{colour(RULE)}"/>')
                y += _LANE + 2
        end = _LEFT + chosen.length * scale
        mark = f"stroke:{colour(MUTED)};stroke-dasharray:2 2"
        parts.append(f'<path d="M{end:.1f} {top:g}V{y:g}" style="{mark}"/>')
        y += 20
    parts += _axis(longest, scale, y - 8)
    entries, below = legend(list(used.items()), _LEFT, y + 32, WIDTH)
    said = "One traced step of each run on one clock"
    return drawing(WIDTH, below - 8, said, "".join(parts) + entries)


def _window(chosen: ChosenRun) -> tuple[int, int]:
    """When the chosen step began and ended, in ns of its trace."""
    begin = chosen.step.start if chosen.step is not None else chosen.origin
    return begin, begin + chosen.length


def _busiest(lanes: LaneSet) -> list[int]:
    total = lanes.busy[lanes.bounds[1:]] - lanes.busy[lanes.bounds[:-1]]
    return sorted(int(lane) for lane in np.argsort(-total, kind="stable")[:_MOST_LANES])


def _paths(
    lanes: LaneSet, lane: int, labels: Labels, window: tuple[int, int], scale: float, y: float
) -> Iterator[tuple[str, Shade, str]]:
    """What each colour of a lane covers, as a path."""
    inside = lanes.window(lane, window[0] + 1, window[1] - 1)
    if inside.start == inside.stop:
        return
    rows = lanes.row[inside]
    kinds = np.array([kind for _, kind in labels.texts], dtype=np.int64)[labels.codes[rows]]
    start = (np.maximum(lanes.start[inside], window[0]) - window[0]) * scale + _LEFT
    end = (np.minimum(lanes.end[inside], window[1]) - window[0]) * scale + _LEFT
    for kind in np.unique(kinds).tolist():
        label, shade = _meaning(kind)
        of = kinds == kind
        first, last = start[of], end[of]
        breaks = np.flatnonzero(first[1:] - last[:-1] > _JOIN) + 1
        begins = first[np.concatenate(([0], breaks))]
        ends = last[np.concatenate((breaks - 1, [len(last) - 1]))]
        bars = (
            f"M{left:.1f} {y + 2:g}h{max(right - left, 0.2):.1f}v12h-{max(right - left, 0.2):.1f}z"
            for left, right in zip(begins.tolist(), ends.tolist(), strict=True)
        )
        yield label, shade, "".join(bars)


def _meaning(kind: int) -> tuple[str, Shade]:
    if kind < len(CATEGORIES):
        return CATEGORIES[kind].value, CATEGORY[CATEGORIES[kind]]
    call = CALLS[kind - len(CATEGORIES)]
    return f"call: {call.value}", _CALL.get(call, MUTED)


def _axis(longest: int, scale: float, y: float) -> Iterator[str]:
    yield f'<path d="M{_LEFT:g} {y:g}H{WIDTH:g}" style="stroke:{colour(MUTED)}"/>'
    for ns in round_numbers(longest):
        yield words(_LEFT + ns * scale, y + 14, format_ns(ns) if ns else "0", "axis", "middle")
