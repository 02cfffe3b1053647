"""Run prepared for the timeline: built once, then used for any window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.arrays import encode
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.analysis.trace.lanes import TraceLanes, build_trace_lanes, create_empty_lanes
from graphviz_dash.analysis.trace.ranges import NO_RANGES, CpuRanges, build_cpu_ranges
from graphviz_dash.analysis.trace.steps import Step, StepMethod, find_steps
from graphviz_dash.charts.palette import is_light
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.marks import MODULE

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.analysis.ranks.shared_steps import SharedSteps
    from graphviz_dash.analysis.replays.replays import ReplayMatch
    from graphviz_dash.model.run import Run

CATEGORIES: Final = tuple(Category)
CALLS: Final = tuple(CallClass)
ANNOTATION: Final = len(CATEGORIES) + len(CALLS)
OPERATOR: Final = ANNOTATION + 1
"""Categories of CPU thread ranges."""

FIRST_PART: Final = OPERATOR + 1
"""First category of the periods of a compiled step, in the order of StepPart."""

_LABEL_CHARS = 64


class Labels(Struct, frozen=True):
    """Short name and category of each row: ``codes`` (rows,) index ``texts``, whose categories
    index CATEGORIES followed by CALLS."""

    codes: npt.NDArray[np.int32]
    texts: list[tuple[str, int]]


class RunTimeline(Struct, frozen=True):
    """Lanes of a run with the displayed data of each slice."""

    run: str
    light: bool
    """Uses the lighter colour of runs without graphs."""
    problem: str | None
    """Reason for a missing trace, with all other fields empty; None if a trace exists."""
    lanes: TraceLanes
    steps: tuple[Step, ...]
    """Empty if the trace has no marks."""
    begin: int
    """First displayed time of the trace, in ns."""
    end: int
    """Last displayed time of the trace, in ns."""
    gpu_labels: Labels
    call_labels: Labels
    ranges: CpuRanges
    """Operators and annotations of CPU threads."""
    range_labels: Labels
    """Labels of ranges; categories are OPERATOR and ANNOTATION."""
    replays: ReplayMatch | None = None
    """Matches of GPU rows to nodes; None if there are none, or not yet."""
    matched: npt.NDArray[np.int32] | None = None
    """Index in ``replays`` by GPU row, -1 for none; None without ``replays``."""
    node: npt.NDArray[np.int32] | None = None
    """Node index by GPU row, -1 for none; None without ``replays``."""
    shared: SharedSteps | None = None
    """None unless a rank with aligned clocks."""


def build_run_timeline(
    run: Run, shared: SharedSteps | None = None, traced_steps: tuple[Step, ...] | None = None
) -> RunTimeline:
    """Build the timeline from the traced pass; slices are not matched to nodes yet.

    Args:
        run: without a replay trace, the timeline states the reason.
        shared: steps of its rank on the clock of all ranks, or None.
        traced_steps: steps of its trace, if already known.
    """
    trace = run.replay_trace
    if trace is None:
        return _build_empty_timeline(run)
    lanes = build_trace_lanes(trace)
    ranges = build_cpu_ranges(trace)
    traced_steps = find_steps(trace, lanes.links) if traced_steps is None else traced_steps
    lane_sets = [lane_set for lane_set in (lanes.gpu, lanes.cpu) if len(lane_set.start)]
    return RunTimeline(
        run=run.name,
        light=is_light(run),
        problem=None if lane_sets else "the trace has no GPU work and no launches",
        lanes=lanes,
        steps=tuple(step for step in traced_steps if step.method is not StepMethod.WHOLE),
        begin=min((int(lane_set.start.min()) for lane_set in lane_sets), default=0),
        end=max((int(lane_set.end.max()) for lane_set in lane_sets), default=0),
        gpu_labels=_build_gpu_labels(trace.gpu),
        call_labels=_build_call_labels(trace.runtime),
        ranges=ranges,
        range_labels=_build_range_labels(ranges),
        shared=shared,
    )


def add_nodes(timeline: RunTimeline, replays: ReplayMatch | None) -> RunTimeline:
    """Add the matched nodes of GPU rows, if any."""
    if replays is None or not replays.matched_count:
        return timeline
    item = np.full(len(timeline.gpu_labels.codes), -1, dtype=np.int32)
    item[replays.gpu_row] = np.arange(len(replays.gpu_row))
    node = np.where(item >= 0, replays.node[np.maximum(item, 0)], -1).astype(np.int32)
    return replace(timeline, replays=replays, matched=item, node=node)


class ChosenRun(Struct, frozen=True):
    """Run with its chosen step (None: the trace marks none, and the origin is its begin)."""

    timeline: RunTimeline
    step: Step | None

    @property
    def origin(self) -> int:
        """Start of the step in ns of the trace; for ranks its start on the first rank."""
        if self.step is None:
            return self.timeline.begin
        shared = self.timeline.shared
        return self.step.span_start if shared is None else shared.starts[self.step.index]

    @property
    def length(self) -> int:
        """Duration in ns of the step, or of the trace without marked steps."""
        if self.step:
            return self.step.duration_ns
        return self.timeline.end - self.timeline.begin


def choose_step(timeline: RunTimeline, step: int | None) -> ChosenRun:
    """Choose a step; None or an unknown number selects the step of median length, the same for all
    ranks of a mode."""
    by_index = {marked.index: marked for marked in timeline.steps}
    if timeline.shared is not None:
        # A step that another rank lacks has no common origin.
        by_index = {
            index: marked for index, marked in by_index.items() if index in timeline.shared.starts
        }
        step = timeline.shared.typical if step not in by_index else step
    if step is not None and step in by_index:
        return ChosenRun(timeline, by_index[step])
    ordered = sorted(timeline.steps, key=lambda marked: (marked.duration_ns, marked.index))
    return ChosenRun(timeline, ordered[(len(ordered) - 1) // 2] if ordered else None)


def format_label(text: str) -> str:
    """Make a label of one line, without control characters, of at most 64 characters."""
    line = escape_control_characters(text)
    return line if len(line) <= _LABEL_CHARS else line[: _LABEL_CHARS - 1] + "…"


def _build_empty_timeline(run: Run) -> RunTimeline:
    no_labels = Labels(np.zeros(0, dtype=np.int32), [])
    return RunTimeline(
        run=run.name,
        light=is_light(run),
        problem=escape_control_characters(explain_missing(run, Fact.TRACED_PASS).reason),
        lanes=create_empty_lanes(),
        steps=(),
        begin=0,
        end=0,
        gpu_labels=no_labels,
        call_labels=no_labels,
        ranges=NO_RANGES,
        range_labels=no_labels,
    )


def _build_gpu_labels(gpu: pl.DataFrame) -> Labels:
    names, name_texts = encode(gpu["name"])
    kinds, kind_texts = encode(gpu["kind"])
    pair = names.astype(np.int64) * max(1, len(kind_texts)) + kinds
    used, codes = np.unique(pair, return_inverse=True)
    texts = []
    for code in used.tolist():
        name, kind = name_texts[code // len(kind_texts)], kind_texts[code % len(kind_texts)]
        short_text = shorten_name(name) if kind == "kernel" else name
        texts.append((format_label(short_text), CATEGORIES.index(categorise(kind, name))))
    return Labels(codes.astype(np.int32), texts)


def _build_range_labels(ranges: CpuRanges) -> Labels:
    # An operator and an annotation may have the same name.
    texts = [
        (format_label(name.removeprefix(MODULE)), category)
        for name in ranges.names
        for category in (ANNOTATION, OPERATOR)
    ]
    codes = 2 * ranges.name
    codes[ranges.annotations :] += 1
    return Labels(codes, texts)


def _build_call_labels(runtime: pl.DataFrame) -> Labels:
    codes, names = encode(runtime["name"])
    texts = [
        (format_label(name), len(CATEGORIES) + CALLS.index(get_call_class(name))) for name in names
    ]
    return Labels(codes.astype(np.int32), texts)
