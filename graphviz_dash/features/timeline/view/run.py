"""One run made ready for the timeline: built once, then any window of it is a matter of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.arrays import encode
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.analysis.trace.lanes import TraceLanes, no_lanes, trace_lanes
from graphviz_dash.analysis.trace.ranges import NO_RANGES, CpuRanges, cpu_ranges
from graphviz_dash.analysis.trace.steps import Step, StepMethod, steps
from graphviz_dash.charts.palette import is_light
from graphviz_dash.errors import printable
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
"""Categories of the ranges that CPU threads are in."""

FIRST_PART: Final = OPERATOR + 1
"""The first category of the stretches of a compiled step, which follow in the order of StepPart."""

_LABEL_CHARS = 64


class Labels(Struct, frozen=True):
    """Short name and category of each row of a table: ``codes`` (rows,) index ``texts``, whose
    categories index CATEGORIES, and CALLS beyond them."""

    codes: npt.NDArray[np.int32]
    texts: list[tuple[str, int]]


class RunTimeline(Struct, frozen=True):
    """A run's lanes with what a view shows of each slice."""

    run: str
    """Its name."""
    light: bool
    """Whether it is drawn in the lighter ink: it ran without graphs."""
    problem: str | None
    """Why there is no trace to show, all else being empty then; None where there is one."""
    lanes: TraceLanes
    """Its slices in lanes."""
    steps: tuple[Step, ...]
    """The marked steps; none where the trace has no marks."""
    begin: int
    """First instant of what is shown, in ns of the trace."""
    end: int
    """Last instant of what is shown, in ns of the trace."""
    gpu_labels: Labels
    """Of the GPU rows."""
    call_labels: Labels
    """Of the API calls."""
    ranges: CpuRanges
    """What CPU threads are in: operators and annotations."""
    range_labels: Labels
    """Of the ranges; categories are OPERATOR and ANNOTATION."""
    replays: ReplayMatch | None = None
    """How GPU rows were matched to nodes; None when none was, or not yet."""
    matched: npt.NDArray[np.int32] | None = None
    """By GPU row the item of ``replays``, -1 for none; None without those."""
    node: npt.NDArray[np.int32] | None = None
    """By GPU row the index of the node, -1 for none; None without ``replays``."""
    shared: SharedSteps | None = None
    """For one rank of several whose clocks are aligned: the origins of the steps that they share.
    """


def run_timeline(
    run: Run, shared: SharedSteps | None = None, traced_steps: tuple[Step, ...] | None = None
) -> RunTimeline:
    """The timeline of ``run``, from its traced pass; its slices are not matched to nodes yet.

    Args:
        run: a run; one without a replay trace gives a timeline that says so.
        shared: the steps of its rank on the clock of all ranks, or None.
        taken: the steps of its trace, where they are known already.
    """
    trace = run.replay_trace
    if trace is None:
        return _without_trace(run)
    lanes = trace_lanes(trace)
    ranges = cpu_ranges(trace)
    traced_steps = steps(trace, lanes.links) if traced_steps is None else traced_steps
    shown = [each for each in (lanes.gpu, lanes.cpu) if len(each.start)]
    return RunTimeline(
        run=run.name,
        light=is_light(run),
        problem=None if shown else "the trace holds no GPU work and no launch",
        lanes=lanes,
        steps=tuple(step for step in traced_steps if step.method is not StepMethod.WHOLE),
        begin=min((int(each.start.min()) for each in shown), default=0),
        end=max((int(each.end.max()) for each in shown), default=0),
        gpu_labels=_gpu_labels(trace.gpu),
        call_labels=_call_labels(trace.runtime),
        ranges=ranges,
        range_labels=_range_labels(ranges),
        shared=shared,
    )


def with_nodes(timeline: RunTimeline, replays: ReplayMatch | None) -> RunTimeline:
    """``timeline`` with the nodes that its GPU rows were matched to; as it is where none was."""
    if replays is None or not replays.matched:
        return timeline
    item = np.full(len(timeline.gpu_labels.codes), -1, dtype=np.int32)
    item[replays.gpu_row] = np.arange(len(replays.gpu_row))
    node = np.where(item >= 0, replays.node[np.maximum(item, 0)], -1).astype(np.int32)
    return replace(timeline, replays=replays, matched=item, node=node)


class ChosenRun(Struct, frozen=True):
    """A run with its chosen step (None: the trace marks none, and the origin is its begin)."""

    timeline: RunTimeline
    step: Step | None

    @property
    def origin(self) -> int:
        """The run's origin in ns of its trace: the begin of the step, for one rank of several the
        begin on the rank that is the first to begin it."""
        if self.step is None:
            return self.timeline.begin
        shared = self.timeline.shared
        return self.step.span_start if shared is None else shared.begins[self.step.index]

    @property
    def length(self) -> int:
        """Of the chosen step, or of the whole trace where it marks none, in ns."""
        if self.step:
            return self.step.duration_ns
        return self.timeline.end - self.timeline.begin


def choose(timeline: RunTimeline, step: int | None) -> ChosenRun:
    """``timeline`` at the step of number ``step``; None, or one the run lacks: its typical step,
    the one of median length, for which all ranks of a mode take the same."""
    by_index = {marked.index: marked for marked in timeline.steps}
    if timeline.shared is not None:
        # A step that another rank lacks has no common origin.
        by_index = {
            index: marked for index, marked in by_index.items() if index in timeline.shared.begins
        }
        step = timeline.shared.typical if step not in by_index else step
    if step is not None and step in by_index:
        return ChosenRun(timeline, by_index[step])
    ordered = sorted(timeline.steps, key=lambda marked: (marked.duration_ns, marked.index))
    return ChosenRun(timeline, ordered[(len(ordered) - 1) // 2] if ordered else None)


def label(text: str) -> str:
    """``text`` as a label: on one line, without control characters, at most 64 characters."""
    line = printable(text)
    return line if len(line) <= _LABEL_CHARS else line[: _LABEL_CHARS - 1] + "…"


def _without_trace(run: Run) -> RunTimeline:
    none = Labels(np.zeros(0, dtype=np.int32), [])
    return RunTimeline(
        run=run.name,
        light=is_light(run),
        problem=printable(why_missing(run, Fact.TRACED_PASS).reason),
        lanes=no_lanes(),
        steps=(),
        begin=0,
        end=0,
        gpu_labels=none,
        call_labels=none,
        ranges=NO_RANGES,
        range_labels=none,
    )


def _gpu_labels(gpu: pl.DataFrame) -> Labels:
    names, name_texts = encode(gpu["name"])
    kinds, kind_texts = encode(gpu["kind"])
    pair = names.astype(np.int64) * max(1, len(kind_texts)) + kinds
    used, codes = np.unique(pair, return_inverse=True)
    texts = []
    for code in used.tolist():
        name, kind = name_texts[code // len(kind_texts)], kind_texts[code % len(kind_texts)]
        shown = short_name(name) if kind == "kernel" else name
        texts.append((label(shown), CATEGORIES.index(categorise(kind, name))))
    return Labels(codes.astype(np.int32), texts)


def _range_labels(ranges: CpuRanges) -> Labels:
    # An operator and an annotation may have one name.
    texts = [
        (label(name.removeprefix(MODULE)), category)
        for name in ranges.names
        for category in (ANNOTATION, OPERATOR)
    ]
    codes = 2 * ranges.name
    codes[ranges.annotations :] += 1
    return Labels(codes, texts)


def _call_labels(runtime: pl.DataFrame) -> Labels:
    codes, names = encode(runtime["name"])
    texts = [(label(name), len(CATEGORIES) + CALLS.index(call_class(name))) for name in names]
    return Labels(codes.astype(np.int32), texts)
