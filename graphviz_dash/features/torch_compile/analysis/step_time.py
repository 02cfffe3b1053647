"""Time breakdown of a compiled step: GPU work by its launcher, idle time by CPU activity.

The parts add up to the traced step exactly. In a clean step, GPU work keeps its traced duration,
graph launches have the calibrated cost, and the remaining idle time is divided as in the trace. If
traced work exceeds the clean step, the difference is a remainder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.absence import NO_STEP_MARKS
from graphviz_dash.analysis.arrays import Ints, get_spans
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.intervals import NONE
from graphviz_dash.analysis.trace.lanes import link_trace_launches
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.features.torch_compile.analysis.clean_step import (
    CpuPiece,
    GpuWork,
    LaunchedWork,
    get_first_node_latency_ns,
    split_cpu_pieces,
)
from graphviz_dash.features.torch_compile.analysis.slices import (
    CpuSlices,
    SliceKind,
    build_cpu_slices,
    find_first_within,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.trace import Trace


class PartTime(Struct, frozen=True):
    """Time of one part of a step in one compilation; means of the traced steps, in ns."""

    part: StepPart
    frame: str | None
    """Compilation of the enclosing call; None outside compiled functions."""
    busy_ns: float
    """GPU busy time."""
    idle_ns: float
    """GPU idle time during this CPU activity, under the profiler."""


class FrameCalls(Struct, frozen=True):
    """Calls of a compilation per step; means of the traced steps."""

    frame: str | None
    """None if unknown, for example a backward pass without a record."""
    calls: float
    """Calls of the function that reached this compilation."""
    graph_calls: float
    """Calls of compiled graphs: forward and backward are one each."""
    replays: float
    """Launched graphs, excluding those of resume functions."""
    launches: float
    """Kernels and copies launched individually, including input copies."""


class StepTime(Struct, frozen=True, dict=True):
    """Time breakdown of the traced steps without the shortest and longest quarter."""

    steps: int
    traced_ns: float
    """Mean duration; the sum of ``parts``."""
    median_ns: float
    """Median of all traced steps, as Compare shows it."""
    parts: tuple[PartTime, ...]
    """Parts, longest first."""
    graph_launches: float | None
    """Median of the traced steps, as Compare shows it. None if unknown."""
    calls: tuple[FrameCalls, ...]
    """In the order of their first call."""
    pieces: tuple[CpuPiece, ...]
    """CPU pieces of the step with the median duration, in order."""

    @property
    def busy_ns(self) -> float:
        """GPU busy time."""
        return sum(part.busy_ns for part in self.parts)

    @property
    def idle_ns(self) -> float:
        """GPU idle time under the profiler."""
        return sum(part.idle_ns for part in self.parts)

    def select_total_ns(self, step_ns: float | Missing) -> float:
        """Return the clean step time, or the median traced step if unknown."""
        return self.median_ns if isinstance(step_ns, Missing) else step_ns

    def compute_idle_scale(self, step_ns: float) -> float:
        """Compute the factor for idle time, except graph launches.

        0 if GPU work alone lasts longer.
        """
        launching_ns = self._launch_idle_ns
        other_idle_ns = self.idle_ns - launching_ns
        remaining_ns = step_ns - self.busy_ns - self._compute_clean_launch_ns(step_ns)
        return max(0.0, remaining_ns) / other_idle_ns if other_idle_ns else 0.0

    def compute_clean_idle_ns(self, part: PartTime, step_ns: float) -> float:
        """Compute the idle time of ``part`` in a clean step."""
        if part.part is StepPart.LAUNCH and self._launch_idle_ns:
            return part.idle_ns * self._compute_clean_launch_ns(step_ns) / self._launch_idle_ns
        return part.idle_ns * self.compute_idle_scale(step_ns)

    def compute_clean_ns(self, part: PartTime, step_ns: float) -> float:
        """Compute the time of ``part`` in a clean step."""
        return part.busy_ns + self.compute_clean_idle_ns(part, step_ns)

    @cached_property
    def _launch_idle_ns(self) -> float:
        """Idle time during graph launches under the profiler."""
        return sum(part.idle_ns for part in self.parts if part.part is StepPart.LAUNCH)

    def _compute_clean_launch_ns(self, step_ns: float) -> float:
        """Compute the idle time during graph launches without a profiler, at most, in ns."""
        longest = max(0.0, step_ns - self.busy_ns)
        return min(self._launch_idle_ns, self._graph_count * get_first_node_latency_ns(), longest)

    @cached_property
    def _graph_count(self) -> int:
        return sum(piece.launches_graph for piece in self.pieces)

    def compute_remainder_ns(self, step_ns: float) -> float:
        """Compute the step time minus all parts, in whole ns; may be negative."""
        return float(
            round(step_ns - sum(self.compute_clean_ns(part, step_ns) for part in self.parts))
        )


_Key = tuple[StepPart, "str | None"]

_HOST_COPIES: Final = ("Memcpy HtoD", "Memcpy DtoH")


class StepSpan(Struct, frozen=True):
    """A span of a traced step with one purpose, in ns of the trace."""

    start: int
    end: int
    part: StepPart
    frame: str | None
    """Compilation of the enclosing call; None outside compiled functions."""
    is_busy: bool
    """True if the GPU is busy."""


def compute_step_time(
    trace: Trace,
    traced_steps: Sequence[Step],
    compilation: Compilation | None,
    launched_steps: Sequence[Step] | Missing | None = None,
) -> StepTime | Missing:
    """Compute the time breakdown of ``traced_steps``.

    ``compilation`` maps backward passes to compilations. ``launched_steps`` are the steps with all
    launches, by default ``traced_steps``.
    """
    if not traced_steps or traced_steps[0].method is StepMethod.WHOLE:
        return NO_STEP_MARKS
    missing = find_missing_gpu_work(trace)
    if missing is not None:
        return missing
    selected = _select_middle_half(traced_steps)
    divider = StepDivider(trace, compilation)
    busy, idle = defaultdict[_Key, float](float), defaultdict[_Key, float](float)
    for step in selected:
        for stretch in divider.divide(step):
            sums = busy if stretch.is_busy else idle
            sums[stretch.part, stretch.frame] += stretch.end - stretch.start
    count = len(selected)
    parts = [
        PartTime(part, frame, busy[part, frame] / count, idle[part, frame] / count)
        for part, frame in dict.fromkeys((*busy, *idle))
    ]
    return StepTime(
        steps=count,
        traced_ns=sum(step.end - step.start for step in selected) / count,
        median_ns=float(np.median([step.duration_ns for step in traced_steps])),
        parts=tuple(sorted(parts, key=lambda part: -(part.busy_ns + part.idle_ns))),
        graph_launches=_count_graph_launches(launched_steps or traced_steps),
        calls=divider.count_calls(selected),
        pieces=divider.split_cpu(selected[len(selected) // 2]),
    )


def _count_graph_launches(steps: Sequence[Step] | Missing) -> float | None:
    if isinstance(steps, Missing):
        return None
    return float(np.median([step.graph_launches for step in steps]))


class StepDivider:
    """Divider for the steps of a trace; built in near-linear time."""

    def __init__(self, trace: Trace, compilation: Compilation | None) -> None:
        self._located = _PartLocator(build_cpu_slices(trace), compilation)
        self._keys = self._located.find_work_keys(trace)
        self._start, self._end = get_spans(trace.gpu)
        self._launch = link_trace_launches(trace).launch
        self._call_start, self._call_end = get_spans(trace.runtime)
        names = trace.gpu["name"].cast(str).fill_null("").to_list()
        self._is_host_copy = [name.startswith(_HOST_COPIES) for name in names]

    def divide(self, step: Step) -> list[StepSpan]:
        """Divide a step into spans without gaps."""
        inside = np.flatnonzero((self._end > step.start) & (self._start < step.end))
        begin = np.maximum(self._start[inside], step.start)
        stop = np.minimum(self._end[inside], step.end)
        order = np.argsort(begin, kind="stable")
        inside, begin, stop = inside[order], begin[order], stop[order]
        # Concurrent work counts from the end of the earlier work.
        latest_end = np.maximum.accumulate(np.concatenate(([step.start], stop)))
        begin = np.maximum(begin, latest_end[:-1])
        pieces = [
            (first, last, self._keys[row], True)
            for row, first, last in zip(inside.tolist(), begin.tolist(), stop.tolist(), strict=True)
            if last > first
        ]
        starts, ends = np.concatenate(([step.start], stop)), np.concatenate((begin, [step.end]))
        starts = np.maximum.accumulate(starts)
        has_gap = ends > starts
        pieces += self._located.find_idle_pieces(starts[has_gap], ends[has_gap])
        pieces.sort(key=lambda piece: piece[0])
        return _merge_pieces(pieces)

    def count_calls(self, traced_steps: Sequence[Step]) -> tuple[FrameCalls, ...]:
        """Count the calls of each compilation, ordered by first call."""
        return self._located.count_calls(traced_steps)

    def split_cpu(self, step: Step) -> tuple[CpuPiece, ...]:
        """Split CPU activity and launches into pieces."""
        edges = np.array([step.start]), np.array([step.end])
        spans = [
            (first, last, *key) for first, last, key, _ in self._located.find_idle_pieces(*edges)
        ]
        return split_cpu_pieces(spans, self._collect_launched_work(step))

    def _collect_launched_work(self, step: Step) -> list[LaunchedWork]:
        """Collect the GPU work launched in ``step``, ordered by call."""
        by_launch: dict[int, list[int]] = {}
        for row, launch in enumerate(self._launch.tolist()):
            if launch >= 0 and step.start <= self._call_start[launch] < step.end:
                by_launch.setdefault(launch, []).append(row)
        launched = []
        for launch, rows in by_launch.items():
            start, end = int(self._start[rows].min()), int(self._end[rows].max())
            work = GpuWork(
                part=self._keys[rows[0]][0],
                duration_ns=float(end - start),
                kernels=len(rows),
                is_host_copy=any(self._is_host_copy[row] for row in rows),
            )
            call = int(self._call_start[launch]), int(self._call_end[launch])
            launched.append(LaunchedWork(*call, end, work))
        return sorted(launched, key=lambda launched_work: launched_work.call_start)


_Piece = tuple[int, int, _Key, bool]


def _merge_pieces(pieces: Sequence[_Piece]) -> list[StepSpan]:
    stretches: list[StepSpan] = []
    for first, last, (part, frame), is_busy in pieces:
        previous = stretches[-1] if stretches else None
        if previous is not None and (
            previous.part,
            previous.frame,
            previous.is_busy,
            previous.end,
        ) == (
            part,
            frame,
            is_busy,
            first,
        ):
            stretches[-1] = replace(previous, end=last)
        else:
            stretches.append(StepSpan(first, last, part, frame, is_busy))
    return stretches


def _select_middle_half(traced_steps: Sequence[Step]) -> list[Step]:
    ordered = sorted(traced_steps, key=lambda step: step.end - step.start)
    excluded = len(ordered) // 4
    return ordered[excluded : len(ordered) - excluded]


def _find_cut_call(slices: CpuSlices, first_launch: Ints) -> int | None:
    """Find the graph call during which the trace ends, before its launch.

    It is the last call of its thread, without a launch that other calls of this graph have.
    """
    calls = np.flatnonzero(slices.select_kind(SliceKind.CALL))
    if not len(calls):
        return None
    last = int(calls[np.argmax(slices.nesting.start[calls])])
    never = np.iinfo(np.int64).max
    same = calls[slices.name[calls] == slices.name[last]]
    is_cut = first_launch[last] == never and bool((first_launch[same] < never).any())
    return last if is_cut else None


class _PartLocator:
    def __init__(self, slices: CpuSlices, compilation: Compilation | None) -> None:
        self._slices = slices
        nesting = slices.nesting
        self._call = nesting.find_nearest(slices.select_kind(SliceKind.CALL))
        self._region = nesting.find_nearest(slices.select_kind(SliceKind.REGION))
        self._copy = nesting.find_nearest(slices.select_kind(SliceKind.COPY))
        self._guards = nesting.find_nearest(slices.select_kind(SliceKind.GUARDS))
        self._wrapper = nesting.find_nearest(slices.select_kind(SliceKind.WRAPPER))
        self._first_launch = find_first_within(slices, SliceKind.GRAPH_LAUNCH, SliceKind.CALL)
        if (cut := _find_cut_call(slices, self._first_launch)) is not None:
            # Its launch comes after the trace.
            self._first_launch[cut] = nesting.end[cut]
        self._frame_of_key = {
            graph.key: graph.frame for graph in (compilation.graphs if compilation else ())
        }
        self._frames: dict[int, str | None] = {}
        self._call_within = self._map_calls_by_wrapper()
        self._last_call = self._find_last_calls()
        self._regions = self._group_regions_by_thread()

    def find_work_keys(self, trace: Trace) -> list[_Key]:
        """Find part and compilation of each row."""
        launch = link_trace_launches(trace).launch
        key_by_launch: dict[int, _Key] = {}
        keys: list[_Key] = []
        for row in launch.tolist():
            if row < 0:
                keys.append((StepPart.EAGER, None))
                continue
            if row not in key_by_launch:
                key_by_launch[row] = self._find_launch_key(self._slices.runtime + row)
            keys.append(key_by_launch[row])
        return keys

    def find_idle_pieces(self, starts: Ints, ends: Ints) -> list[_Piece]:
        """Find the CPU activity during gaps."""
        if not len(starts):
            return []
        nesting = self._slices.nesting
        low, high = int(starts[0]), int(ends[-1])
        is_near = (nesting.end > low) & (nesting.start < high)
        edges = np.unique(
            np.concatenate((starts, ends, nesting.start[is_near], nesting.end[is_near]))
        )
        edges = edges[(edges >= low) & (edges <= high)]
        first, last = edges[:-1], edges[1:]
        middle = first + (last - first) // 2
        gap = np.searchsorted(starts, middle, "right") - 1
        in_gap = (gap >= 0) & (middle < ends[np.maximum(gap, 0)])
        first, last, middle = first[in_gap], last[in_gap], middle[in_gap]
        columns = (self._find_innermost(middle), middle, first, last)
        return [
            (begin, end, self._find_key(slice_index, instant), False)
            for slice_index, instant, begin, end in zip(
                *(values.tolist() for values in columns), strict=True
            )
        ]

    def count_calls(self, traced_steps: Sequence[Step]) -> tuple[FrameCalls, ...]:
        """Count the calls of each compilation within the steps."""
        slices = self._slices
        counts: dict[str | None, list[int]] = {}
        kinds = (SliceKind.REGION, SliceKind.CALL, SliceKind.GRAPH_LAUNCH, SliceKind.LAUNCH)
        starts = slices.nesting.start
        bounds = [(step.start, step.end) for step in traced_steps]
        within = np.zeros(len(starts), dtype=np.bool_)
        for first, last in bounds:
            within |= (starts >= first) & (starts < last)
        for column_index, kind in enumerate(kinds):
            rows = np.flatnonzero(slices.select_kind(kind) & within)
            for row in rows[np.argsort(starts[rows], kind="stable")].tolist():
                frame = self._find_frame(row)
                if kind is SliceKind.REGION or self._call[row] != NONE:
                    counts.setdefault(frame, [0] * len(kinds))[column_index] += 1
        steps = len(traced_steps)
        return tuple(
            FrameCalls(frame, *(number / steps for number in numbers))
            for frame, numbers in counts.items()
        )

    def _find_innermost(self, instants: Ints) -> Ints:
        """Find the innermost slice at each instant, shape (instants,).

        Prefers the thread of the steps; if it waits or has no slice, other launching threads count.
        """
        chosen = np.full(len(instants), NONE, dtype=np.int64)
        waits = np.full(len(instants), NONE, dtype=np.int64)
        for thread in self._slices.threads:
            unassigned = np.flatnonzero(chosen == NONE)
            if not len(unassigned):
                break
            threads = np.full(len(unassigned), thread, dtype=np.int64)
            innermost = self._slices.nesting.find_around(instants[unassigned], threads)
            kind = np.where(innermost == NONE, SliceKind.STEP, self._slices.kind[innermost])
            is_active = (
                (kind != SliceKind.STEP) & (kind != SliceKind.WAIT) & (kind != SliceKind.RANGE)
            )
            chosen[unassigned[is_active]] = innermost[is_active]
            waiting = (kind == SliceKind.WAIT) & (waits[unassigned] == NONE)
            waits[unassigned[waiting]] = innermost[waiting]
        return np.where(chosen == NONE, waits, chosen)

    def _find_launch_key(self, row: int) -> _Key:
        call, frame = self._call[row], self._find_frame(row)
        if self._slices.kind[row] == SliceKind.GRAPH_LAUNCH:
            return StepPart.REPLAY, frame
        if call == NONE:
            return StepPart.EAGER, frame
        return (StepPart.COPIES if self._is_input_copy(row) else StepPart.COMPILED), frame

    def _is_input_copy(self, row: int) -> bool:
        """True within an input copy before the call's first graph launch."""
        nesting = self._slices.nesting
        copy, call = int(self._copy[row]), int(self._call[row])
        return (
            copy != NONE
            and nesting.start[copy] >= nesting.start[call]
            and nesting.start[row] < self._first_launch[call] < np.iinfo(np.int64).max
        )

    def _find_key(self, row: int, instant: int) -> _Key:
        if row == NONE:
            return StepPart.PYTHON, None
        if self._slices.kind[row] == SliceKind.WAIT:
            return StepPart.WAIT, self._find_frame(row)
        if self._guards[row] != NONE:
            return StepPart.GUARDS, self._find_guarded_frame(int(self._guards[row]))
        return self._find_part(row, instant), self._find_frame(row)

    def _find_part(self, row: int, instant: int) -> StepPart:
        """Find the part in a slice other than a wait or a cache lookup."""
        call = int(self._call[row])
        if call != NONE:
            return self._find_call_part(row, call)
        if self._is_in_wrapper(row):
            return StepPart.DISPATCH
        if self._slices.kind[row] == SliceKind.GRAPH_LAUNCH:
            # A graph that the program or mode compile-graph launches around compiled code.
            return StepPart.LAUNCH
        if self._region[row] == NONE or self._is_after_break(row, instant):
            return StepPart.EAGER
        return StepPart.DISPATCH

    def _find_call_part(self, row: int, call: int) -> StepPart:
        if self._first_launch[call] == np.iinfo(np.int64).max:
            return StepPart.COMPILED
        if self._is_input_copy(row):
            return StepPart.COPIES
        kind = self._slices.kind[row]
        if kind == SliceKind.GRAPH_LAUNCH:
            return StepPart.LAUNCH
        # Operators and kernels of an uncaptured partition; the rest belongs to the cudagraph trees.
        is_uncaptured = kind in (SliceKind.OPERATOR, SliceKind.LAUNCH, SliceKind.COPY)
        return StepPart.COMPILED if is_uncaptured else StepPart.DISPATCH

    def _is_in_wrapper(self, row: int) -> bool:
        wrapper, region = int(self._wrapper[row]), int(self._region[row])
        nesting = self._slices.nesting
        return wrapper != NONE and (
            region == NONE or bool(nesting.depth[wrapper] > nesting.depth[region])
        )

    def _is_after_break(self, row: int, instant: int) -> bool:
        """True for operators outside graphs and for code after the function's last graph."""
        if self._slices.kind[row] in (SliceKind.OPERATOR, SliceKind.COPY, SliceKind.LAUNCH):
            return True
        last = self._last_call.get(int(self._region[row]))
        return last is not None and instant >= last

    def _map_calls_by_wrapper(self) -> dict[int, int]:
        nesting = self._slices.nesting
        calls: dict[int, int] = {}
        for call in np.flatnonzero(self._slices.select_kind(SliceKind.CALL)).tolist():
            wrapper = int(self._wrapper[call])
            while wrapper != NONE:
                calls.setdefault(wrapper, call)
                parent = int(nesting.parent[wrapper])
                wrapper = NONE if parent == NONE else int(self._wrapper[parent])
        return calls

    def _find_last_calls(self) -> dict[int, int]:
        """Find the end of the last graph of regions that continue in another region."""
        slices, nesting = self._slices, self._slices.nesting
        parent = nesting.parent
        regions = np.flatnonzero(slices.select_kind(SliceKind.REGION))
        parent_regions = np.where(
            parent[regions] == NONE, NONE, self._region[np.maximum(parent[regions], 0)]
        )
        interrupted = set(parent_regions[parent_regions != NONE].tolist())
        ends: dict[int, int] = {region: int(nesting.start[region]) for region in interrupted}
        for call in np.flatnonzero(slices.select_kind(SliceKind.CALL)).tolist():
            region = int(self._region[call])
            if region in ends:
                outermost = self._wrapper[call] if self._is_in_wrapper(call) else call
                ends[region] = max(ends[region], int(nesting.end[int(outermost)]))
        return ends

    def _group_regions_by_thread(self) -> dict[int, Ints]:
        nesting = self._slices.nesting
        regions = np.flatnonzero(self._slices.select_kind(SliceKind.REGION))
        regions = regions[np.argsort(nesting.start[regions], kind="stable")]
        return {
            thread: regions[nesting.thread[regions] == thread]
            for thread in np.unique(nesting.thread).tolist()
        }

    def _find_frame(self, row: int) -> str | None:
        """Use the region, or else the graph call."""
        region, call = int(self._region[row]), int(self._call[row])
        if call == NONE and region == NONE:
            call = self._call_within.get(int(self._wrapper[row]), NONE)
        owner = region if region != NONE else call
        if owner == NONE:
            return None
        if owner not in self._frames:
            self._frames[owner] = (
                self._slices.get_frame(owner)
                if region != NONE
                else self._frame_of_key.get(self._slices.get_key(owner) or "")
            )
        return self._frames[owner]

    def _find_guarded_frame(self, guards: int) -> str | None:
        nesting = self._slices.nesting
        regions = self._regions[int(nesting.thread[guards])]
        position = int(np.searchsorted(nesting.start[regions], nesting.end[guards]))
        return self._find_frame(int(regions[position])) if position < len(regions) else None
