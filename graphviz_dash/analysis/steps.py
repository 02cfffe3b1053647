"""The steps of a trace: when each began and ended, and which GPU work it launched.

Work on the GPU runs after the call that launched it, and the clocks of CPU and GPU are only matched
to about a microsecond, so a step's work is found through its launch (``correlation``), not by when
it ran. Steps end in a synchronisation, so all of it is done when the step ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.calls import CallClass, call_class
from graphviz_dash.analysis.lanes import Ints, Links, column, encode, trace_links
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
    """One step; times in ns since the trace's origin.

    ``gpu_rows`` are rows of ``trace.gpu`` by start time, shape (n,); of these ``unlinked`` have no
    known launch and were given to the step in which they began. ``busy_ns`` is the union of their
    intervals over all streams, ``work_ns`` the sum of their durations. ``kernels``, ``copies`` and
    ``sets`` count GPU rows; ``kernel_launches``, ``graph_launches`` and ``copy_calls`` count calls
    on the CPU that began within the step, of any thread (backward has its own).
    """

    index: int
    start: int
    end: int
    method: StepMethod
    gpu_rows: Ints
    unlinked: int
    busy_ns: int
    work_ns: int
    kernels: int
    copies: int
    sets: int
    kernel_launches: int
    graph_launches: int
    copy_calls: int

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
    launched = column(trace.runtime, "ts")
    step_of_call = _locate(launched, start, end)
    launch = (links or trace_links(trace)).launch
    owner, linked = _owners(trace, launch, step_of_call, start, end, method)
    kind = _coded(trace.gpu["kind"], _kind_place)
    call = _coded(trace.runtime["name"], _call_place)
    begin = column(trace.gpu, "ts")
    stop = begin + np.maximum(column(trace.gpu, "dur"), 0)
    rows_of = _grouped(owner, len(start))
    calls_of = _grouped(step_of_call, len(start))
    found = []
    for place in range(len(start)):
        rows = rows_of[place]
        kinds = np.bincount(kind[rows], minlength=len(_KINDS) + 1)
        calls = np.bincount(call[calls_of[place]], minlength=len(_LAUNCHES) + 1)
        found.append(
            Step(
                index=int(index[place]),
                start=int(start[place]),
                end=int(end[place]),
                method=method,
                gpu_rows=rows,
                unlinked=int(np.count_nonzero(~linked[rows])),
                busy_ns=int(exclusive_ns(begin[rows], stop[rows]).sum()),
                work_ns=int((stop[rows] - begin[rows]).sum()),
                kernels=int(kinds[0]),
                copies=int(kinds[1]),
                sets=int(kinds[2]),
                kernel_launches=int(calls[0]),
                graph_launches=int(calls[1]),
                copy_calls=int(calls[2]),
            )
        )
    return tuple(found)


def exclusive_ns(start: Ints, end: Ints) -> Ints:
    """What each interval adds to the union of those that start before it, shape (n,), in ns.

    ``start`` is ascending. The sum is the length of the union: where intervals overlap, the time
    counts for the one that started first.
    """
    if not len(start):
        return np.zeros(0, dtype=np.int64)
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
            return index[order], begin[rows][order], stop[rows][order], method
    zero = np.zeros(1, dtype=np.int64)
    whole = np.array([trace.info.end_ns], dtype=np.int64)
    return zero, zero, whole, StepMethod.WHOLE


def _is_number(text: str) -> bool:
    # Eighteen digits fit into int64, whatever they are.
    return text.isascii() and text.isdigit() and len(text) <= 18


def _locate(instants: Ints, start: Ints, end: Ints) -> Ints:
    """The step in which each instant lies, or -1; in the later one where steps overlap."""
    place = np.searchsorted(start, instants, "right") - 1
    inside = (place >= 0) & (instants < end[np.maximum(place, 0)])
    return np.where(inside, place, -1)


def _owners(
    trace: Trace, launch: Ints, step_of_call: Ints, start: Ints, end: Ints, method: StepMethod
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The step of each GPU row, or -1, and whether it was told by its launch."""
    linked = launch >= 0
    if method is StepMethod.WHOLE:
        return np.zeros(len(launch), dtype=np.int64), linked
    by_time = _locate(column(trace.gpu, "ts"), start, end)
    if not len(step_of_call):
        return by_time, linked
    return np.where(linked, step_of_call[np.maximum(launch, 0)], by_time), linked


def _coded(names: pl.Series, place: Callable[[str], int]) -> Ints:
    """``place(name)`` for each row, asked once for each distinct name."""
    codes, distinct = encode(names)
    return np.array([place(name) for name in distinct], dtype=np.int64)[codes]


def _kind_place(name: str) -> int:
    return _KINDS.index(name) if name in _KINDS else len(_KINDS)


def _call_place(name: str) -> int:
    which = call_class(name)
    return _LAUNCHES.index(which) if which in _LAUNCHES else len(_LAUNCHES)


def _grouped(owner: Ints, count: int) -> list[Ints]:
    """The rows of each owner 0..count-1, in the order of the table."""
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(count + 1))
    return [order[bounds[place] : bounds[place + 1]] for place in range(count)]
