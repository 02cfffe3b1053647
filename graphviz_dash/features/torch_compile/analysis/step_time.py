"""Where the time of a compiled step goes: the GPU's work by who launched it, and its idle time by
what the CPU did meanwhile.

Method. At each instant of a traced step the GPU works or it is idle. Its work is a part of who
launched it: a graph, a copy of an input before a graph, compiled code without a graph, or code that
is not compiled. Idle time is a part of what the CPU was in: guards, the wrappers around compiled
graphs, a graph's launch, code between graphs, Python. So the parts of the traced step add up to it,
to the nanosecond. The profiler slows the CPU and leaves the GPU's work as it is: in a clean step
(one that was timed without it) work takes the same time, launches of graphs, which CUPTI slows
most, take what the shipped calibration says, and what is left of the step is idle time, divided as
the trace divides it. Where the traced work takes longer than the clean step the
difference is shown as a remainder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.absence import UNMARKED
from graphviz_dash.analysis.arrays import Ints, column
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.analysis.trace.gpu_records import missing_gpu_work
from graphviz_dash.analysis.trace.intervals import NONE
from graphviz_dash.analysis.trace.lanes import trace_links
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.features.torch_compile.analysis.clean_step import (
    CpuPiece,
    GpuWork,
    LaunchedWork,
    cpu_pieces,
    first_node_ns,
)
from graphviz_dash.features.torch_compile.analysis.slices import (
    CpuSlices,
    SliceKind,
    cpu_slices,
    first_of_kind_within,
)
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.model.compilation import Compilation
    from graphviz_dash.model.trace import Trace


class PartTime(Struct, frozen=True):
    """The time of one part of a step in one compilation; means of the traced steps, in ns."""

    part: StepPart
    """What the time is for."""
    frame: str | None
    """The compilation whose call it was in; None outside compiled functions."""
    busy_ns: float
    """Time in which the GPU worked for it."""
    idle_ns: float
    """Time in which the GPU was idle and the CPU was in it, under the profiler."""


class FrameCalls(Struct, frozen=True):
    """How often a compilation is called in a step; means of the traced steps."""

    frame: str | None
    """The compilation; None where it is not known, as of a backward without an account."""
    calls: float
    """Calls of its function that ended up in it."""
    replays: float
    """Graphs that were launched in it, not counting the rests behind its graph breaks."""
    launches: float
    """Kernels and copies that it launched one by one, input copies included."""


class StepTime(Struct, frozen=True, dict=True):
    """Where the time of the traced steps goes, the shortest and the longest quarter left out."""

    steps: int
    """How many were looked at."""
    traced_ns: float
    """The mean of their durations: all of ``parts`` together."""
    parts: tuple[PartTime, ...]
    """The parts, the longest first."""
    calls: tuple[FrameCalls, ...]
    """The compilations that were called, by their first call."""
    pieces: tuple[CpuPiece, ...]
    """What the CPU does in the step of the middle duration, and launches, from its begin on."""

    @property
    def busy_ns(self) -> float:
        """Time in which the GPU worked."""
        return sum(part.busy_ns for part in self.parts)

    @property
    def idle_ns(self) -> float:
        """Time in which it did not, under the profiler."""
        return sum(part.idle_ns for part in self.parts)

    def scale(self, step_ns: float) -> float:
        """What idle time is to be multiplied by, but for that of launches of graphs, so that a step
        takes ``step_ns``; 0 where the GPU's work alone takes longer."""
        launching = self._launching_ns
        rest = self.idle_ns - launching
        left = step_ns - self.busy_ns - self._clean_launching(step_ns)
        return max(0.0, left) / rest if rest else 0.0

    def clean_idle(self, part: PartTime, step_ns: float) -> float:
        """The idle time of ``part`` in a step that takes ``step_ns`` without a profiler, in ns."""
        if part.part is StepPart.LAUNCH and self._launching_ns:
            return part.idle_ns * self._clean_launching(step_ns) / self._launching_ns
        return part.idle_ns * self.scale(step_ns)

    def clean(self, part: PartTime, step_ns: float) -> float:
        """The time of ``part`` in a step that takes ``step_ns`` without a profiler, in ns."""
        return part.busy_ns + self.clean_idle(part, step_ns)

    @cached_property
    def _launching_ns(self) -> float:
        """Idle time in which graphs are launched, under the profiler."""
        return sum(part.idle_ns for part in self.parts if part.part is StepPart.LAUNCH)

    def _clean_launching(self, step_ns: float) -> float:
        """The same without one: what clean launches of so many graphs take at most."""
        longest = max(0.0, step_ns - self.busy_ns)
        return min(self._launching_ns, self._graphs * first_node_ns(), longest)

    @cached_property
    def _graphs(self) -> int:
        return sum(piece.launches_graph for piece in self.pieces)

    def remainder(self, step_ns: float) -> float:
        """What the parts of such a step lack of it, in whole ns, for sums of parts are no more
        precise; below 0 where they are longer."""
        return float(round(step_ns - sum(self.clean(part, step_ns) for part in self.parts)))


_Key = tuple[StepPart, "str | None"]

_HOST_COPIES: Final = ("Memcpy HtoD", "Memcpy DtoH")


class Stretch(Struct, frozen=True):
    """A stretch of a traced step that is for one thing."""

    start: int
    """In ns of the trace."""
    end: int
    """In ns of the trace."""
    part: StepPart
    """What it is for."""
    frame: str | None
    """The compilation whose call it is in; None outside compiled functions."""
    is_busy: bool
    """Whether the GPU works."""


def step_time(
    trace: Trace, traced_steps: Sequence[Step], compilation: Compilation | None
) -> StepTime | Missing:
    """Where the time of ``traced_steps`` goes, which are those of ``trace``.

    ``compilation`` tells of which compilation a backward is; without it that is not known.
    """
    if not traced_steps or traced_steps[0].method is StepMethod.WHOLE:
        return UNMARKED
    without = missing_gpu_work(trace)
    if without is not None:
        return without
    chosen = _middle_half(traced_steps)
    divider = StepDivider(trace, compilation)
    busy, idle = defaultdict[_Key, float](float), defaultdict[_Key, float](float)
    for step in chosen:
        for stretch in divider.stretches(step):
            sums = busy if stretch.is_busy else idle
            sums[stretch.part, stretch.frame] += stretch.end - stretch.start
    count = len(chosen)
    parts = [
        PartTime(part, frame, busy[part, frame] / count, idle[part, frame] / count)
        for part, frame in dict.fromkeys((*busy, *idle))
    ]
    return StepTime(
        steps=count,
        traced_ns=sum(step.end - step.start for step in chosen) / count,
        parts=tuple(sorted(parts, key=lambda part: -(part.busy_ns + part.idle_ns))),
        calls=divider.calls(chosen),
        pieces=divider.cpu_pieces(chosen[len(chosen) // 2]),
    )


class StepDivider:
    """Divides the steps of a trace with compiled code: built once, near-linear in the trace."""

    def __init__(self, trace: Trace, compilation: Compilation | None) -> None:
        self._located = _Located(cpu_slices(trace), compilation)
        self._keys = self._located.keys_of_work(trace)
        self._start = column(trace.gpu, "ts")
        self._end = self._start + np.maximum(column(trace.gpu, "dur"), 0)
        self._launch = trace_links(trace).launch
        self._call_start = column(trace.runtime, "ts")
        self._call_end = self._call_start + np.maximum(column(trace.runtime, "dur"), 0)
        names = trace.gpu["name"].cast(str).fill_null("").to_list()
        self._is_host_copy = [name.startswith(_HOST_COPIES) for name in names]

    def stretches(self, step: Step) -> list[Stretch]:
        """What ``step`` is for, from its begin to its end without a gap."""
        inside = np.flatnonzero((self._end > step.start) & (self._start < step.end))
        begin = np.maximum(self._start[inside], step.start)
        stop = np.minimum(self._end[inside], step.end)
        order = np.argsort(begin, kind="stable")
        inside, begin, stop = inside[order], begin[order], stop[order]
        # Work that runs beside other work counts from where the work before it ends.
        reach = np.maximum.accumulate(np.concatenate(([step.start], stop)))
        begin = np.maximum(begin, reach[:-1])
        pieces = [
            (first, last, self._keys[row], True)
            for row, first, last in zip(inside.tolist(), begin.tolist(), stop.tolist(), strict=True)
            if last > first
        ]
        starts, ends = np.concatenate(([step.start], stop)), np.concatenate((begin, [step.end]))
        starts = np.maximum.accumulate(starts)
        open_ = ends > starts
        pieces += self._located.idle(starts[open_], ends[open_])
        pieces.sort(key=lambda piece: piece[0])
        return _joined(pieces)

    def calls(self, traced_steps: Sequence[Step]) -> tuple[FrameCalls, ...]:
        """How often each compilation is called in ``traced_steps``, by its first call."""
        return self._located.calls(traced_steps)

    def cpu_pieces(self, step: Step) -> tuple[CpuPiece, ...]:
        """What the CPU does in ``step``, also while the GPU works, and what it launches."""
        edges = np.array([step.start]), np.array([step.end])
        spans = [(first, last, *key) for first, last, key, _ in self._located.idle(*edges)]
        return cpu_pieces(spans, self._launched(step))

    def _launched(self, step: Step) -> list[LaunchedWork]:
        """The work that calls of ``step`` launch, by when these begin."""
        by_launch: dict[int, list[int]] = {}
        for row, launch in enumerate(self._launch.tolist()):
            if launch >= 0 and step.start <= self._call_start[launch] < step.end:
                by_launch.setdefault(launch, []).append(row)
        launched = []
        for launch, rows in by_launch.items():
            start, end = int(self._start[rows].min()), int(self._end[rows].max())
            work = GpuWork(
                part=self._keys[rows[0]][0],
                ns=float(end - start),
                kernels=len(rows),
                is_host_copy=any(self._is_host_copy[row] for row in rows),
            )
            call = int(self._call_start[launch]), int(self._call_end[launch])
            launched.append(LaunchedWork(*call, end, work))
        return sorted(launched, key=lambda each: each.call_start)


_Piece = tuple[int, int, _Key, bool]


def _joined(pieces: Sequence[_Piece]) -> list[Stretch]:
    """Pieces in order, those of one kind that follow each other as one."""
    stretches: list[Stretch] = []
    for first, last, (part, frame), is_busy in pieces:
        before = stretches[-1] if stretches else None
        if before is not None and (before.part, before.frame, before.is_busy, before.end) == (
            part,
            frame,
            is_busy,
            first,
        ):
            stretches[-1] = replace(before, end=last)
        else:
            stretches.append(Stretch(first, last, part, frame, is_busy))
    return stretches


def _middle_half(traced_steps: Sequence[Step]) -> list[Step]:
    """The steps without the shortest and the longest quarter, in which something else happened."""
    ordered = sorted(traced_steps, key=lambda step: step.end - step.start)
    left_out = len(ordered) // 4
    return ordered[left_out : len(ordered) - left_out]


class _Located:
    """Which part of which compilation an instant of the CPU, or work on the GPU, belongs to."""

    def __init__(self, slices: CpuSlices, compilation: Compilation | None) -> None:
        self._slices = slices
        nesting = slices.nesting
        self._call = nesting.nearest(slices.of_kind(SliceKind.CALL))
        self._region = nesting.nearest(slices.of_kind(SliceKind.REGION))
        self._copy = nesting.nearest(slices.of_kind(SliceKind.COPY))
        self._guards = nesting.nearest(slices.of_kind(SliceKind.GUARDS))
        self._wrapper = nesting.nearest(slices.of_kind(SliceKind.WRAPPER))
        self._first_launch = first_of_kind_within(slices, SliceKind.GRAPH_LAUNCH, SliceKind.CALL)
        self._frame_of_key = {
            graph.key: graph.frame for graph in (compilation.graphs if compilation else ())
        }
        self._frames: dict[int, str | None] = {}
        self._call_within = self._calls_by_wrapper()
        self._last_call = self._last_calls()
        self._regions = self._regions_by_thread()

    def keys_of_work(self, trace: Trace) -> list[_Key]:
        """The part and the compilation of each row of ``trace.gpu``."""
        launch = trace_links(trace).launch
        key_by_launch: dict[int, _Key] = {}
        keys: list[_Key] = []
        for row in launch.tolist():
            if row < 0:
                keys.append((StepPart.EAGER, None))
                continue
            if row not in key_by_launch:
                key_by_launch[row] = self._key_of_launch(self._slices.runtime + row)
            keys.append(key_by_launch[row])
        return keys

    def idle(self, starts: Ints, ends: Ints) -> list[_Piece]:
        """What the CPU was in during each piece of the gaps from ``starts`` to ``ends``."""
        if not len(starts):
            return []
        nesting = self._slices.nesting
        low, high = int(starts[0]), int(ends[-1])
        near = (nesting.end > low) & (nesting.start < high)
        edges = np.unique(np.concatenate((starts, ends, nesting.start[near], nesting.end[near])))
        edges = edges[(edges >= low) & (edges <= high)]
        first, last = edges[:-1], edges[1:]
        middle = first + (last - first) // 2
        at = np.searchsorted(starts, middle, "right") - 1
        open_ = (at >= 0) & (middle < ends[np.maximum(at, 0)])
        first, last, middle = first[open_], last[open_], middle[open_]
        columns = (self._innermost(middle), middle, first, last)
        return [
            (begin, end, self._key_at(where, instant), False)
            for where, instant, begin, end in zip(
                *(values.tolist() for values in columns), strict=True
            )
        ]

    def calls(self, traced_steps: Sequence[Step]) -> tuple[FrameCalls, ...]:
        """How often each compilation was called within the steps."""
        slices = self._slices
        counts: dict[str | None, list[int]] = {}
        wanted = ((SliceKind.REGION, 0), (SliceKind.GRAPH_LAUNCH, 1), (SliceKind.LAUNCH, 2))
        starts = slices.nesting.start
        bounds = [(step.start, step.end) for step in traced_steps]
        within = np.zeros(len(starts), dtype=np.bool_)
        for first, last in bounds:
            within |= (starts >= first) & (starts < last)
        for kind, column_index in wanted:
            rows = np.flatnonzero(slices.of_kind(kind) & within)
            for row in rows[np.argsort(starts[rows], kind="stable")].tolist():
                frame = self._frame(row)
                if column_index == 0 or self._call[row] != NONE:
                    counts.setdefault(frame, [0, 0, 0])[column_index] += 1
        steps = len(traced_steps)
        return tuple(
            FrameCalls(frame, *(number / steps for number in numbers))
            for frame, numbers in counts.items()
        )

    def _innermost(self, instants: Ints) -> Ints:
        """The slice that tells what the CPU was in: that of the thread of the steps, and where this
        one only waits or is in nothing, that of another thread that launches work."""
        chosen = np.full(len(instants), NONE, dtype=np.int64)
        waits = np.full(len(instants), NONE, dtype=np.int64)
        for thread in self._slices.threads:
            left = np.flatnonzero(chosen == NONE)
            if not len(left):
                break
            own = np.full(len(left), thread, dtype=np.int64)
            innermost = self._slices.nesting.around(instants[left], own)
            kind = np.where(innermost == NONE, SliceKind.STEP, self._slices.kind[innermost])
            says = (kind != SliceKind.STEP) & (kind != SliceKind.WAIT) & (kind != SliceKind.RANGE)
            chosen[left[says]] = innermost[says]
            waiting = (kind == SliceKind.WAIT) & (waits[left] == NONE)
            waits[left[waiting]] = innermost[waiting]
        return np.where(chosen == NONE, waits, chosen)

    def _key_of_launch(self, row: int) -> _Key:
        call, frame = self._call[row], self._frame(row)
        if self._slices.kind[row] == SliceKind.GRAPH_LAUNCH:
            return StepPart.REPLAY, frame
        if call == NONE:
            return StepPart.EAGER, frame
        return (StepPart.COPIES if self._copies_input(row) else StepPart.COMPILED), frame

    def _copies_input(self, row: int) -> bool:
        """Whether a slice in a call is within a copy before the call's first graph launch."""
        nesting = self._slices.nesting
        copy, call = int(self._copy[row]), int(self._call[row])
        return (
            copy != NONE
            and nesting.start[copy] >= nesting.start[call]
            and nesting.start[row] < self._first_launch[call] < np.iinfo(np.int64).max
        )

    def _key_at(self, row: int, instant: int) -> _Key:
        if row == NONE:
            return StepPart.PYTHON, None
        if self._slices.kind[row] == SliceKind.WAIT:
            return StepPart.WAIT, self._frame(row)
        if self._guards[row] != NONE:
            return StepPart.GUARDS, self._guarded(int(self._guards[row]))
        return self._part_at(row, instant), self._frame(row)

    def _part_at(self, row: int, instant: int) -> StepPart:
        """The part of an instant in a slice that is no wait and no look-up."""
        call = int(self._call[row])
        if call != NONE:
            return self._part_of_call(row, call)
        if self._in_wrapper(row):
            return StepPart.DISPATCH
        if self._slices.kind[row] == SliceKind.GRAPH_LAUNCH:
            # A graph that the program, or mode compile-graph, launches around compiled code.
            return StepPart.LAUNCH
        if self._region[row] == NONE or self._behind_a_break(row, instant):
            return StepPart.EAGER
        return StepPart.DISPATCH

    def _part_of_call(self, row: int, call: int) -> StepPart:
        if self._first_launch[call] == np.iinfo(np.int64).max:
            return StepPart.COMPILED
        if self._copies_input(row):
            return StepPart.COPIES
        kind = self._slices.kind[row]
        if kind == SliceKind.GRAPH_LAUNCH:
            return StepPart.LAUNCH
        # Operators and kernels of a partition that is not captured; the rest is the trees' own.
        between = kind in (SliceKind.OPERATOR, SliceKind.LAUNCH, SliceKind.COPY)
        return StepPart.COMPILED if between else StepPart.DISPATCH

    def _in_wrapper(self, row: int) -> bool:
        wrapper, region = int(self._wrapper[row]), int(self._region[row])
        nesting = self._slices.nesting
        return wrapper != NONE and (
            region == NONE or bool(nesting.depth[wrapper] > nesting.depth[region])
        )

    def _behind_a_break(self, row: int, instant: int) -> bool:
        """Whether an instant in a compiled function, outside its graphs, is code that Dynamo did
        not compile: behind its last graph, or an operator."""
        if self._slices.kind[row] in (SliceKind.OPERATOR, SliceKind.COPY, SliceKind.LAUNCH):
            return True
        last = self._last_call.get(int(self._region[row]))
        return last is not None and instant >= last

    def _calls_by_wrapper(self) -> dict[int, int]:
        """The call of a graph that is in each wrapper."""
        nesting = self._slices.nesting
        calls: dict[int, int] = {}
        for call in np.flatnonzero(self._slices.of_kind(SliceKind.CALL)).tolist():
            wrapper = int(self._wrapper[call])
            while wrapper != NONE:
                calls.setdefault(wrapper, call)
                parent = int(nesting.parent[wrapper])
                wrapper = NONE if parent == NONE else int(self._wrapper[parent])
        return calls

    def _last_calls(self) -> dict[int, int]:
        """For each region that goes on in another behind its own graphs: when these end."""
        slices, nesting = self._slices, self._slices.nesting
        parent = nesting.parent
        regions = np.flatnonzero(slices.of_kind(SliceKind.REGION))
        around = np.where(
            parent[regions] == NONE, NONE, self._region[np.maximum(parent[regions], 0)]
        )
        broken = set(around[around != NONE].tolist())
        ends: dict[int, int] = {region: int(nesting.start[region]) for region in broken}
        for call in np.flatnonzero(slices.of_kind(SliceKind.CALL)).tolist():
            region = int(self._region[call])
            if region in ends:
                outermost = self._wrapper[call] if self._in_wrapper(call) else call
                ends[region] = max(ends[region], int(nesting.end[int(outermost)]))
        return ends

    def _regions_by_thread(self) -> dict[int, Ints]:
        """The compiled functions of each thread, by their begin."""
        nesting = self._slices.nesting
        regions = np.flatnonzero(self._slices.of_kind(SliceKind.REGION))
        regions = regions[np.argsort(nesting.start[regions], kind="stable")]
        return {
            thread: regions[nesting.thread[regions] == thread]
            for thread in np.unique(nesting.thread).tolist()
        }

    def _frame(self, row: int) -> str | None:
        """The compilation of a slice: of the region around it, else of the call's graph."""
        region, call = int(self._region[row]), int(self._call[row])
        if call == NONE and region == NONE:
            call = self._call_within.get(int(self._wrapper[row]), NONE)
        where = region if region != NONE else call
        if where == NONE:
            return None
        if where not in self._frames:
            self._frames[where] = (
                self._slices.frame_of(where)
                if region != NONE
                else self._frame_of_key.get(self._slices.key_of(where) or "")
            )
        return self._frames[where]

    def _guarded(self, guards: int) -> str | None:
        """The compilation that a look-up led to: the region that begins behind it."""
        nesting = self._slices.nesting
        regions = self._regions[int(nesting.thread[guards])]
        at = int(np.searchsorted(nesting.start[regions], nesting.end[guards]))
        return self._frame(int(regions[at])) if at < len(regions) else None
