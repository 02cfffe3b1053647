"""What the CPU did while the GPU was idle in an eager step.

The GPU idles before a piece of work because the call that launches it has not come yet, so what the
threads that launch did until then tells why. What a graph removes is the launching: operators,
calls that launch, and the Python between them. It does not make data come sooner, nor copies in
which the CPU takes part, nor what else the program does between two launches.

Time in a call that waits or copies counts as such wherever it lies, and so does loading of data
that launches nothing. Otherwise, where two launches follow each other within ``LAUNCHING_NS`` all
between them is launching. In longer stretches the
operators that launch something are launching, and the rest is laid on what ran in it. A gap that is
longer than that is none that launches fill, and nothing in it is launching.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Floats, Ints, column, encode
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.lanes import link_launches, merge_busy

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.analysis.prediction.eager_step import EagerStep
    from graphviz_dash.model.trace import Trace

LAUNCHING_NS: Final = 1_000_000
"""Launches that follow each other within this time have nothing but launching between them. No
launch takes longer, nor an operator that launches, unless it loads or compiles code first or the
profiler holds it; nor does the GPU wait longer for either."""

_OWN_NS: Final = 30_000
"""What a call that waits or copies takes by itself at most: longer ones wait for something."""
_MOST_OF_IT: Final = 0.8
"""What covers so much of a gap is named as what it lies in."""


class IdleCause(StrEnum):
    """What the CPU did while the GPU was idle, in the order in which it is shown."""

    LAUNCHING = "launching"
    """Operators, calls that launch, and the Python between them: what a graph removes."""
    DATA = "waiting for data"
    """Loading, decoding and preprocessing of inputs."""
    WAITING = "copies and synchronisation"
    """Calls that wait, and copies in which the CPU takes part."""
    LOADING = "allocating and loading code"
    """Calls that allocate memory, and launches and operators so long that they load their code."""
    PROFILER = "the profiler"
    """The profiler's own work."""
    OTHER = "other Python"
    """What else the program does, operators on the CPU too."""


class IdlePart(Struct, frozen=True):
    """One cause of idle time."""

    cause: IdleCause
    """What the CPU did."""
    ns: float
    """How long the GPU was idle meanwhile, in ns."""
    by: str | None
    """The operator, call, range or frame that most of it lies in; None where the trace does not
    tell."""


class IdleTime(Struct, frozen=True):
    """The idle time of a traced step that ran the typical work, by its causes, the largest first,
    in ns."""

    parts: tuple[IdlePart, ...]
    """One for each cause that there is."""
    launching: Floats
    """How long the GPU idled for launching before each item of the first step that ran the typical
    work, shape (items,)."""

    @property
    def total_ns(self) -> float:
        """All of it."""
        return sum(part.ns for part in self.parts)

    @property
    def kept(self) -> tuple[IdlePart, ...]:
        """The parts that a graph does not remove."""
        return tuple(part for part in self.parts if part.cause is not IdleCause.LAUNCHING)

    @property
    def kept_share(self) -> float:
        """The share of the idle time that a graph does not remove."""
        return sum(part.ns for part in self.kept) / self.total_ns if self.parts else 0.0


_DATA: Final = re.compile(
    r"DataLoader|dataloader\.py|utils/data/|preprocess|image_processing|video_processing"
    r"|feature_extraction|tokeniz|decord|torchcodec|\bcv2\b|\bPIL/|librosa|soundfile|torchaudio"
    r"|(?:read|load|decode)_(?:video|image|audio|frame|jpeg)|image_utils|video_utils"
    r"|image_transforms|torchvision/(?:io|transforms)|/datasets/",
    re.I,
)
_PROFILER: Final = re.compile(r"torch/profiler/|autograd/profiler|^PyTorch Profiler|^profiler::")
_LAUNCHES: Final = re.compile(r"::|Backward\d*$")
"""Operators, as against ranges of the program that older traces list among them."""
_MARKS: Final = ("ProfilerStep#", "graphviz_dash.")
_SUBMITS: Final = (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH, CallClass.COPY)


def idle_time(trace: Trace, step: EagerStep, *, mean: bool = False) -> IdleTime:
    """The causes of the idle time of the steps that ran the typical work: the mean over the half of
    them whose length is nearest to the median, or with ``mean`` over all. Near-linear in the rows
    of the trace."""
    cpu = _Cpu(trace)
    gaps = _Gaps(trace, step)
    divided = cpu.divided(gaps)
    chosen = list(step.matching) if mean else _middle_steps(step)
    within = np.isin(gaps.step, chosen)
    parts = [
        IdlePart(cause, float(ns.sum()) / len(chosen), cpu.culprit(cause, gaps, ns))
        for cause, ns in ((cause, np.where(within, ns, 0)) for cause, ns in divided.items())
        if ns.sum() > 0
    ]
    before = np.zeros(len(trace.gpu) + 1)
    before[gaps.row] = divided[IdleCause.LAUNCHING]
    return IdleTime(tuple(sorted(parts, key=lambda part: -part.ns)), before[step.rows])


def _middle_steps(step: EagerStep) -> list[int]:
    """The middle half of the steps by their length: one that is not like the others, as the first
    that loads its code, may idle longer than all of them together."""
    by_length = sorted(step.matching, key=lambda index: step.steps[index].duration_ns)
    outer = (len(by_length) + 1) // 4
    return by_length[outer : len(by_length) - outer]


class _Gaps:
    """Idle time of the GPU in the typical steps; arrays of shape (gaps,), instants in ns."""

    def __init__(self, trace: Trace, step: EagerStep) -> None:
        begin = column(trace.gpu, "ts")
        reach = np.maximum.accumulate(begin + np.maximum(column(trace.gpu, "dur"), 0))
        reach = np.concatenate(([0], reach))
        launch = link_launches(
            column(trace.gpu, "correlation"), column(trace.runtime, "correlation")
        ).launch
        rows = np.arange(len(begin), dtype=np.int64)
        starts = column(trace.runtime, "ts")
        launched = np.where(launch >= 0, starts[launch], begin) if len(starts) else begin
        parts = []
        for index in step.matching:
            traced = step.steps[index]
            first, last = np.searchsorted(begin, [traced.span_start, traced.span_end])
            free = np.maximum(reach[first : last + 1], traced.span_start)
            until = np.append(begin[first:last], traced.span_end)
            called = np.append(launched[first:last], traced.span_end)
            own = np.full(len(free), index)
            parts.append((free, until, called, np.append(rows[first:last], -1), own))
        free, until, launched, row, steps = (
            np.concatenate(series) for series in zip(*parts, strict=True)
        )
        idle = until > free
        self.step: Ints = steps[idle]
        """The step that it lies in."""
        self.begin: Ints = free[idle]
        """When the GPU fell idle."""
        self.end: Ints = until[idle]
        """When work began again, or the step ended."""
        self.row: Ints = row[idle]
        """Its row of ``trace.gpu``, -1 for the end of the step."""
        self.launched: Ints = np.minimum(launched[idle], self.end)
        """When the call began that launches this work."""


class _Spans:
    """A union of intervals."""

    def __init__(self, start: Ints, end: Ints) -> None:
        self._periods = merge_busy(np.zeros(len(start), dtype=np.int64), start, end)

    def within(self, begin: Ints, end: Ints) -> Ints:
        """How much of it lies between two instants each, in ns."""
        if not len(self._periods):
            return np.zeros(len(begin), dtype=np.int64)
        upto = self._periods.busy_before(0, np.maximum(end, begin))
        return np.asarray(upto - self._periods.busy_before(0, begin), dtype=np.int64)


class _Events(Struct, frozen=True):
    """Rows of one table on the threads that launch."""

    names: list[str]
    """The distinct names."""
    code: Ints
    """Which of them each row has, shape (rows,)."""
    start: Ints
    """When each began, in ns."""
    end: Ints
    """When it ended."""

    @classmethod
    def read(cls, table: pl.DataFrame, threads: Ints) -> _Events:
        """The rows of ``table`` on ``threads``."""
        code, names = encode(table["name"])
        mine = np.isin(column(table, "tid"), threads)
        start = column(table, "ts")[mine]
        end = start + np.maximum(column(table, "dur")[mine], 0)
        return cls(names, np.asarray(code[mine], dtype=np.int64), start, end)

    def are(self, wanted: Callable[[str], bool]) -> Flags:
        """Whether each row has a wanted name."""
        flags = np.array([wanted(name) for name in self.names], dtype=np.bool_)
        return np.asarray(flags[self.code], dtype=np.bool_)

    def some(self, rows: Flags) -> _Events:
        """These of the rows."""
        return _Events(self.names, self.code[rows], self.start[rows], self.end[rows])

    def around(self, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Rows that touch a period: how long, their own length, and the name."""
        touch = np.flatnonzero((self.start < end) & (self.end > begin))
        inside = np.minimum(self.end[touch], end) - np.maximum(self.start[touch], begin)
        length = self.end[touch] - self.start[touch]
        for row, ns, own in zip(touch.tolist(), inside.tolist(), length.tolist(), strict=True):
            yield ns, own, self.names[self.code[row]]


def _spans(parts: list[_Events]) -> _Spans:
    return _Spans(
        np.concatenate([part.start for part in parts]), np.concatenate([part.end for part in parts])
    )


class _Cpu:
    """What the threads that launch did."""

    def __init__(self, trace: Trace) -> None:
        submits = np.flatnonzero(
            _Events.read(trace.runtime, column(trace.runtime, "tid")).are(
                lambda name: call_class(name) in _SUBMITS
            )
        )
        marks = trace.annotations["name"].str.starts_with("ProfilerStep#").fill_null(False)
        threads = np.union1d(
            column(trace.runtime, "tid")[submits],
            column(trace.annotations.filter(marks), "tid"),
        )
        calls = _Events.read(trace.runtime, threads)
        ops, ranges, frames = (
            _Events.read(table, threads) for table in (trace.ops, trace.annotations, trace.python)
        )
        length = calls.end - calls.start
        launching = calls.are(lambda name: call_class(name) in _SUBMITS)
        waits = calls.are(lambda name: call_class(name) is CallClass.SYNCHRONISE)
        copies = calls.are(lambda name: call_class(name) is CallClass.COPY) & (length > _OWN_NS)
        loads = launching & ~copies & (length > LAUNCHING_NS)
        memory = calls.are(lambda name: call_class(name) is CallClass.MEMORY)
        self._all = (ops, ranges, frames)
        submitted = calls.some(launching)
        begins = np.sort(submitted.start)
        operators = ops.some(
            (_launches(ops, begins) > 0) & ops.are(lambda name: bool(_LAUNCHES.search(name)))
        )
        quick = operators.end - operators.start <= LAUNCHING_NS
        self._submitted: Ints = np.sort(submitted.end)
        self._parts: dict[IdleCause, list[_Events]] = {
            IdleCause.PROFILER: [
                events.some(events.are(lambda name: bool(_PROFILER.search(name))))
                for events in self._all
            ],
            IdleCause.WAITING: [calls.some(waits | copies)],
            IdleCause.DATA: [
                events.some(events.are(lambda name: bool(_DATA.search(name))))
                for events in self._all
            ],
            IdleCause.LOADING: [calls.some(memory | loads)],
            IdleCause.LAUNCHING: [submitted, operators.some(quick)],
        }
        self._slow = operators.some(~quick)
        self._loading_only = [
            events.some(_launches(events, begins) == 0) for events in self._parts[IdleCause.DATA]
        ]
        """Loading of data in which nothing is launched."""

    def divided(self, gaps: _Gaps) -> dict[IdleCause, Ints]:
        """How long each cause lasts in each gap, shape (gaps,), in ns."""
        begin, end = gaps.begin, gaps.end
        left = end - begin
        waiting = _spans(self._parts[IdleCause.WAITING])
        before = np.searchsorted(self._submitted, gaps.launched, "right")
        last = np.concatenate((begin[:1], self._submitted))[before] if len(begin) else begin
        stretch = gaps.launched - last - waiting.within(last, gaps.launched)
        long = (stretch > LAUNCHING_NS) | (left > LAUNCHING_NS)
        divided: dict[IdleCause, Ints] = {}
        parts: list[_Events] = []
        covered = np.zeros(len(begin), dtype=np.int64)
        for cause, events in self._parts.items():
            parts = [*parts, *events]
            inside = _spans(parts).within(begin, end)
            divided[cause] = np.where(long, inside - covered, 0)
            covered = inside
        slow = _spans([*parts, self._slow]).within(begin, end) - covered
        divided[IdleCause.LOADING] = divided[IdleCause.LOADING] + np.where(long, slow, 0)
        covered = covered + slow
        waited = waiting.within(begin, end)
        waits_too = [*self._parts[IdleCause.WAITING], *self._loading_only]
        loaded = _spans(waits_too).within(begin, end) - waited
        divided[IdleCause.DATA] = np.where(long, divided[IdleCause.DATA], loaded)
        waited = np.where(waited > _OWN_NS, waited, 0)
        divided[IdleCause.WAITING] = np.where(long, divided[IdleCause.WAITING], waited)
        # From the call that launches to the begin of its work, but for what the CPU copies there.
        calling = end - gaps.launched - waiting.within(gaps.launched, end)
        handed = np.where(long, np.minimum(calling, left - covered), left - waited - loaded)
        launching = divided[IdleCause.LAUNCHING] + np.maximum(handed, 0)
        divided[IdleCause.LAUNCHING] = np.where(left > LAUNCHING_NS, 0, launching)
        divided[IdleCause.OTHER] = left - sum(divided.values())
        return divided

    def culprit(self, cause: IdleCause, gaps: _Gaps, ns: Ints) -> str | None:
        """What most of the longest gap of a cause lies in."""
        if cause is IdleCause.LAUNCHING:
            return None
        longest = int(np.argmax(ns))
        begin, end = int(gaps.begin[longest]), int(gaps.end[longest])
        if cause is not IdleCause.OTHER:
            slow = [self._slow] if cause is IdleCause.LOADING else []
            parts = [*self._parts[cause], *slow]
            return max(row for part in parts for row in part.around(begin, end))[2]
        around = [
            (own, name)
            for events in self._all
            for inside_ns, own, name in events.around(begin, int(gaps.launched[longest]))
            if inside_ns >= _MOST_OF_IT * int(ns[longest]) and not _named_cause(name)
        ]
        return min(around)[1] if around else None


def _launches(events: _Events, begins: Ints) -> Ints:
    """How many launches, which begin at ``begins``, lie in each event."""
    return np.asarray(
        np.searchsorted(begins, events.end) - np.searchsorted(begins, events.start), dtype=np.int64
    )


def _named_cause(name: str) -> bool:
    """Whether the name tells nothing of other Python: a mark, or of a cause of its own."""
    return name.startswith(_MARKS) or bool(_DATA.search(name) or _PROFILER.search(name))
