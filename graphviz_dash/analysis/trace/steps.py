"""The steps of a trace: when each began and ended, and which GPU work it launched.

Work on the GPU runs after the call that launched it, and the clocks of CPU and GPU are only matched
to about a microsecond, so a step's work is found through its launch (``correlation``), not by when
it ran. Steps end in a synchronisation, so all of it is done when the step ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.arrays import Ints, column, encode
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.lanes import Links, trace_links
from graphviz_dash.model.marks import STEP

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace

_PROFILER_STEP: Final = "ProfilerStep#"
_KINDS: Final = ("kernel", "memcpy", "memset")
_LAUNCHES: Final = (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH, CallClass.COPY)


class StepMethod(StrEnum):
    """How the steps were told apart."""

    MARKED = "graphviz_dash.step ranges"
    PROFILER = "ProfilerStep ranges"
    WHOLE = "the whole trace"


@dataclass(frozen=True)
class Step:
    """One step; instants in ns since the trace's origin."""

    index: int
    """Number of the step as its range has it; its place in time, from 0, where numbers repeat."""
    start: int
    """Begin of the step on the CPU."""
    end: int
    """End of the step on the CPU."""
    method: StepMethod
    """How the steps of the trace were told apart."""
    gpu_rows: Ints
    """Its rows of ``trace.gpu`` by start time, shape (n,)."""
    unlinked: int
    """How many of these have no known launch, and were given to the step in which they began."""
    busy_ns: int
    """Union of their intervals over all streams."""
    work_ns: int
    """Sum of their durations."""
    kernels: int
    """How many of the rows are kernels."""
    copies: int
    """How many are copies."""
    sets: int
    """How many are sets."""
    kernel_launches: int
    """Kernel launches on the CPU that began within the step, on any thread (backward has its
    own)."""
    graph_launches: int
    """Graph launches on the CPU that began within it, on any thread."""
    copy_calls: int
    """Copying and setting calls on the CPU that began within it, on any thread."""

    @property
    def duration_ns(self) -> int:
        """From the step's start to its end, on the CPU."""
        return self.end - self.start

    @property
    def launches(self) -> int:
        """All calls of the step that submit work to the GPU."""
        return self.kernel_launches + self.graph_launches + self.copy_calls


def steps(trace: Trace, links: Links | None = None) -> tuple[Step, ...]:
    """The steps of ``trace`` in the order of time; near-linear in the rows of the trace. ``links``
    are its launches, where they are known already.

    Taken from the ranges ``graphviz_dash.step#i``; without any from ``ProfilerStep#i``, which need
    not end synchronised; without these the whole trace is one step. ``Step.method`` says which.
    """
    index, start, end, method = _ranges(trace)
    launch = (links or trace_links(trace)).launch
    owner, linked = _owners(trace, launch, start, end, method)
    begin = column(trace.gpu, "ts")
    stop = begin + np.maximum(column(trace.gpu, "dur"), 0)
    rows_of, order, bounds = _grouped(owner, len(start))
    step = owner[order]
    kinds = _counts(step, _coded(trace.gpu["kind"], _kind_place)[order], len(start), len(_KINDS))
    calls = _counts(*_calls(trace.runtime, start, end), len(start), len(_LAUNCHES))
    busy = _sums(exclusive_ns(begin[order], stop[order], step), bounds)
    work = _sums((stop - begin)[order], bounds)
    unlinked = _sums((~linked[order]).astype(np.int64), bounds)
    return tuple(
        Step(number, first, last, method, rows, *counts)
        for number, first, last, rows, counts in zip(
            index.tolist(),
            start.tolist(),
            end.tolist(),
            rows_of,
            np.column_stack((unlinked, busy, work, kinds, calls)).tolist(),
            strict=True,
        )
    )


def exclusive_ns(start: Ints, end: Ints, group: Ints | None = None) -> Ints:
    """What each interval adds to the union of those that start before it, shape (n,), in ns.

    ``start`` is ascending. The sum is the length of the union: where intervals overlap, the time
    counts for the one that started first. With ``group``, numbers from 0 that ascend, the same
    within each group, where ``start`` ascends.
    """
    if not len(start):
        return np.zeros(0, dtype=np.int64)
    if group is not None and (groups := int(group[-1])):
        # One behind the other in time, so that no group reaches into the next.
        low = int(start.min())
        stride = int(end.max()) - low + 1
        if (groups + 1) * stride >= 1 << 62:
            edges = np.flatnonzero(np.diff(group)) + 1
            parts = zip(np.split(start, edges), np.split(end, edges), strict=True)
            return np.concatenate([exclusive_ns(*part) for part in parts])
        shift = group * stride - low
        start, end = start + shift, end + shift
    reach = np.maximum.accumulate(end)
    covered = np.concatenate((start[:1], reach[:-1]))
    return np.asarray(np.maximum(end - np.maximum(start, covered), 0), dtype=np.int64)


def _ranges(trace: Trace) -> tuple[Ints, Ints, Ints, StepMethod]:
    """Index, start and end of each step, by start."""
    names = trace.annotations["name"].to_list()
    begin = column(trace.annotations, "ts")
    stop = begin + np.maximum(column(trace.annotations, "dur"), 0)
    for prefix, method in ((STEP, StepMethod.MARKED), (_PROFILER_STEP, StepMethod.PROFILER)):
        numbers = [
            (int(name[len(prefix) :]), row)
            for row, name in enumerate(names)
            if name and name.startswith(prefix) and _is_number(name[len(prefix) :])
        ]
        if numbers:
            index = np.array([number for number, _ in numbers], dtype=np.int64)
            rows = np.array([row for _, row in numbers], dtype=np.int64)
            order = np.argsort(begin[rows], kind="stable")
            if len(np.unique(index)) < len(index):
                # Two traces in one, or a profiler started twice: known by their place in time.
                index = np.empty(len(order), dtype=np.int64)
                index[order] = np.arange(len(order))
            return index[order], begin[rows][order], stop[rows][order], method
    zero = np.zeros(1, dtype=np.int64)
    whole = np.array([trace.info.end_ns], dtype=np.int64)
    return zero, zero, whole, StepMethod.WHOLE


def _is_number(text: str) -> bool:
    # Eighteen digits fit into int64, whatever they are.
    return text.isascii() and text.isdigit() and len(text) <= 18


def _locate(instants: Ints, start: Ints, end: Ints) -> Ints:
    """The step in which each instant lies, or -1; in the later one where steps overlap."""
    if (instants[1:] >= instants[:-1]).all():
        # Few steps are looked for among many instants, not each of these among the steps.
        bounds = np.searchsorted(instants, start)
        counts = np.diff(bounds, prepend=0, append=len(instants))
        step_index = np.repeat(np.arange(-1, len(start)), counts)
    else:
        step_index = np.searchsorted(start, instants, "right") - 1
    inside = (step_index >= 0) & (instants < end[np.maximum(step_index, 0)])
    return np.where(inside, step_index, -1)


def _owners(
    trace: Trace, launch: Ints, start: Ints, end: Ints, method: StepMethod
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The step of each GPU row, or -1, and whether it was told by its launch."""
    linked = launch >= 0
    if method is StepMethod.WHOLE:
        return np.zeros(len(launch), dtype=np.int64), linked
    instants = column(trace.gpu, "ts")
    if linked.any():
        instants = np.where(linked, column(trace.runtime, "ts")[np.maximum(launch, 0)], instants)
    return _locate(instants, start, end), linked


def _calls(runtime: pl.DataFrame, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The step, or -1, and the place in _LAUNCHES of each call that submits work."""
    kind = _coded(runtime["name"], _call_place)
    rows = np.flatnonzero(kind < len(_LAUNCHES))
    return _locate(column(runtime, "ts")[rows], start, end), kind[rows]


def _counts(step: Ints, kind: Ints, steps_count: int, kinds_count: int) -> Ints:
    """How many of each kind lie in each step, shape (steps, kinds); other kinds and -1 nowhere."""
    cell = (step + 1) * (kinds_count + 1) + kind
    counts = np.bincount(cell, minlength=(steps_count + 1) * (kinds_count + 1))
    return counts.reshape(steps_count + 1, kinds_count + 1)[1:, :kinds_count]


def _sums(values: Ints, bounds: Ints) -> Ints:
    """Of the values between neighbouring ``bounds``; exact."""
    return np.diff(np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(values)))[bounds])


def _coded(names: pl.Series, code_of: Callable[[str], int]) -> Ints:
    """``place(name)`` for each row, asked once for each distinct name."""
    codes, distinct = encode(names)
    return np.array([code_of(name) for name in distinct], dtype=np.int64)[codes]


def _kind_place(name: str) -> int:
    return _KINDS.index(name) if name in _KINDS else len(_KINDS)


def _call_place(name: str) -> int:
    which = call_class(name)
    return _LAUNCHES.index(which) if which in _LAUNCHES else len(_LAUNCHES)


def _grouped(owner: Ints, count: int) -> tuple[list[Ints], Ints, Ints]:
    """The rows of each owner 0..count-1, in the order of the table; all of these, one owner behind
    the other; and where each owner's begin and end among them."""
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(count + 1))
    order = order[bounds[0] :]
    bounds = bounds - bounds[0]
    return [order[low:high] for low, high in pairwise(bounds.tolist())], order, bounds
