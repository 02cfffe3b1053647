"""The steps of a trace: when each began and ended, and which GPU work it launched.

Work on the GPU runs after the call that launched it, and the clocks of CPU and GPU are only matched
to about a microsecond, so a step's work is found through its launch (``correlation``), not by when
it ran. Work that was launched before the trace began is of no step; where none are marked, all work
counts together, and it too.

Our own steps end in a synchronisation, so all of their work is done when they end. Those of others
need not: where the CPU runs ahead, its ranges only say when work was launched, and a step lasts
from the end of all work launched before it to the end of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, column, encode
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.lanes import Links, trace_links
from graphviz_dash.analysis.trace.step_ranges import StepMethod, StepRanges, step_ranges

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace

__all__ = ["Step", "StepMethod", "exclusive_ns", "launch_times", "span_union_ns", "steps"]

_KINDS: Final = ("kernel", "memcpy", "memset")
_BEFORE: Final = -1
"""Stands for a launch before the trace began, whose first event is at 0."""
_REACHED_NS: Final = 1_000_000
"""A launch reaches an idle GPU in less, of a large graph and under a profiler too."""
_LAUNCHES: Final = (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH, CallClass.COPY)


class Step(Struct, frozen=True):
    """One step; instants in ns since the trace's origin."""

    index: int
    """Number of the step as its range has it; its place in time, from 0, where ranges have no
    numbers or numbers repeat."""
    start: int
    """Begin of the step on the CPU."""
    end: int
    """End of the step on the CPU."""
    span_start: int
    """When the step began: ``start``, or where the CPU runs ahead the end of all work that was
    launched before it, if that is later; of work that the trace does not show, the begin of the
    step's own."""
    span_end: int
    """When the step ended: ``end``, or where the CPU runs ahead the end of its own work, if that
    is later."""
    method: StepMethod
    """How the steps of the trace were told apart."""
    gpu_rows: Ints
    """Its rows of ``trace.gpu`` by start time, shape (n,)."""
    unlinked: int
    """How many of these have no known launch, and were given to the step in which they began."""
    busy_ns: int
    """Union of their intervals over all streams within the span, at most its length."""
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
        """The length of its span."""
        return self.span_end - self.span_start

    @property
    def launches(self) -> int:
        """All calls of the step that submit work to the GPU."""
        return self.kernel_launches + self.graph_launches + self.copy_calls


def steps(trace: Trace, links: Links | None = None) -> tuple[Step, ...]:
    """The steps of ``trace`` in the order of time; near-linear in the rows of the trace. ``links``
    are its launches, where they are known already. ``Step.method`` says how steps were told apart
    (see :func:`graphviz_dash.analysis.trace.step_ranges.step_ranges`).
    """
    links = links or trace_links(trace)
    ranges = step_ranges(trace, links)
    start, end = ranges.start, ranges.end
    launched, linked = launch_times(trace, links.launch)
    owner = _owners(launched, ranges)
    begin = column(trace.gpu, "ts")
    stop = begin + np.maximum(column(trace.gpu, "dur"), 0)
    rows_of, order, bounds = _grouped(owner, len(start))
    step = owner[order]
    span_start, span_end = _spans(ranges, launched, (begin, stop), owner)
    kinds = _counts(step, _coded(trace.gpu["kind"], _kind_place)[order], len(start), len(_KINDS))
    calls = _counts(*_calls(trace.runtime, start, end), len(start), len(_LAUNCHES))
    low, high = span_start[step], span_end[step]
    inside = exclusive_ns(np.clip(begin[order], low, high), np.clip(stop[order], low, high), step)
    busy = _sums(inside, bounds)
    work = _sums((stop - begin)[order], bounds)
    unlinked = _sums((~linked[order]).astype(np.int64), bounds)
    return tuple(
        Step(number, first, last, since, until, ranges.method, rows, *counts)
        for number, first, last, since, until, rows, counts in zip(
            ranges.index.tolist(),
            start.tolist(),
            end.tolist(),
            span_start.tolist(),
            span_end.tolist(),
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


def span_union_ns(step: Step, start: Ints, end: Ints) -> int:
    """The length of the union of intervals within the span of ``step``, in ns; ``start`` is
    ascending."""
    low, high = step.span_start, step.span_end
    return int(exclusive_ns(np.clip(start, low, high), np.clip(end, low, high)).sum())


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


def launch_times(trace: Trace, launch: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """When each GPU row was launched, in ns, -1 before the trace began, and whether its call is
    known; where it is not, when it began counts as its launch. Both of shape (rows,); ``launch``
    has the row of each one's call, or -1."""
    linked = launch >= 0
    begin = column(trace.gpu, "ts")
    if not linked.any():
        return begin, linked
    launched = np.where(linked, column(trace.runtime, "ts")[np.maximum(launch, 0)], begin)
    # Calls have correlation ids in their order, and a stream runs work in the order of the calls.
    correlation = column(trace.gpu, "correlation")
    called = column(trace.runtime, "correlation")
    first_call = called[called > 0].min(initial=np.iinfo(np.int64).max)
    early = ~linked & (correlation > 0) & (correlation < first_call)
    if early.any():
        stream = column(trace.gpu, "stream") + (column(trace.gpu, "device") << 32)
        _, code = np.unique(stream, return_inverse=True)
        code = code.reshape(-1)
        first = np.full(int(code.max()) + 1, np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(first, code[linked], begin[linked])
        launched[early & (begin < first[code])] = _BEFORE
    return launched, linked


def _owners(launched: Ints, ranges: StepRanges) -> Ints:
    """The step of each GPU row, or -1."""
    if ranges.method is StepMethod.WHOLE:
        return np.zeros(len(launched), dtype=np.int64)
    return _locate(launched, ranges.start, ranges.end)


def _spans(
    ranges: StepRanges, launched: Ints, ran: tuple[Ints, Ints], owner: Ints
) -> tuple[Ints, Ints]:
    """Begin and end of the span of each step, shape (steps,); ``ran`` are begin and end of the
    rows."""
    start, end = ranges.start, ranges.end
    run_begin, stop = ran
    own_end = end.copy()
    owned = owner >= 0
    np.maximum.at(own_end, owner[owned], stop[owned])
    settled = ranges.method in (StepMethod.MARKED, StepMethod.WHOLE) or (own_end <= end).all()
    if settled:
        return start, end
    order = np.argsort(launched, kind="stable")
    done = np.maximum.accumulate(np.concatenate(([np.iinfo(np.int64).min], stop[order])))
    begin = np.maximum(start, done[np.searchsorted(launched[order], start)])
    own_begin = np.full(len(start), np.iinfo(np.int64).max)
    np.minimum.at(own_begin, owner[owned], run_begin[owned])
    # The CPU had long left the step when the GPU began it: until then it did what was launched
    # before the trace began, which does not show it.
    ran_on = (begin == start) & np.isin(np.arange(len(start)), owner[owned])
    begin = np.where(ran_on & (own_begin - _REACHED_NS > end), own_begin, begin)
    return begin, np.maximum(begin, own_end)


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
