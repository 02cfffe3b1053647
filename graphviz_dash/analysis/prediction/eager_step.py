"""The GPU work of one typical step of an eager trace, whoever recorded it: what ran, for how long,
on which stream, and behind what.

Durations are medians over the steps that ran the same work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Ints, column, encode
from graphviz_dash.analysis.attribution.captured_launches import capture_windows
from graphviz_dash.analysis.prediction.stream_order import (
    LaunchedItems,
    StreamCalls,
    stream_waits,
)
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.collectives import collective_kind
from graphviz_dash.analysis.trace.gpu_records import missing_gpu_work
from graphviz_dash.analysis.trace.intervals import NONE, Nesting
from graphviz_dash.analysis.trace.lanes import link_launches, merge_busy
from graphviz_dash.analysis.trace.signatures import distinct_rows
from graphviz_dash.analysis.trace.steps import (
    Step,
    StepMethod,
    exclusive_ns,
    launch_times,
    steps,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.units import format_count, format_percent

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

_SHAPE: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_DEFAULT_STREAM: Final = 7
"""What CUPTI calls the legacy default stream."""

_WAITS: Final = ("cudaStreamWaitEvent", "cuStreamWaitEvent", "hipStreamWaitEvent")
_RECORDS: Final = ("cudaEventRecord", "cuEventRecord", "hipEventRecord")


class EagerStep(Struct, frozen=True):
    """A typical step of an eager trace: parallel arrays over its items (kernels, copies, sets) in
    the order of launch, shape (items,)."""

    method: StepMethod
    """How the steps of the trace were told apart."""
    steps: tuple[Step, ...]
    """All steps of the trace."""
    matching: tuple[int, ...]
    """Indices of the steps that ran this work."""
    rows: Ints
    """Rows of ``trace.gpu`` of the first matching step."""
    launches: Ints
    """Rows of ``trace.runtime`` of the launching calls; -1 where the trace does not tell."""
    kind: tuple[str, ...]
    """kernel, memcpy or memset."""
    name: tuple[str, ...]
    """Names, as the profiler writes them."""
    duration: Ints
    """Median durations, in ns."""
    alone: Ints
    """The same with nothing on other streams beside it, where the trace shows the same work so:
    streams that the eager step ran at once lengthened each other's work already."""
    lane: Ints
    """Dense number of the stream: 0 the default stream, or else the first to be used."""
    blocks: Ints
    """Blocks of a kernel's grid; 0 for others."""
    threads: Ints
    """Threads of a block; 0 for others."""
    shared: Ints
    """Shared memory of a block, in bytes; 0 for others."""
    registers: Ints
    """Registers of a thread; 0 for others."""
    size: Ints
    """Bytes of memcpys and memsets; 0 for others."""
    after: tuple[tuple[int, ...], ...]
    """For each item those on other streams that it waits for."""
    overlapped: Ints
    """By how much an item began before the one ahead of it on its stream ended, where it did in
    every step, in ns."""
    begin: Ints
    """Median begin since the begin of the step, in ns."""
    step_ns: int
    """Median length of the traced step."""
    busy_ns: int
    """Median time in which at least one item ran."""
    work_ns: int
    """Median sum of durations."""
    launch_cpu_ns: int
    """Median time from the step's begin to the return of its last call that submits work."""
    waits: int
    """Calls that let a stream wait for an event."""
    graphed: int
    """Items that a graph launch started."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def streams(self) -> int:
        """On how many streams the work ran."""
        return int(self.lane.max()) + 1 if len(self.lane) else 0

    @property
    def waits_for_ranks(self) -> bool:
        """Whether it has collectives, whose traced time depends on other ranks."""
        return any(collective_kind(name) for name in dict.fromkeys(self.name))

    def count(self, kind: str) -> int:
        """Items of a kind: kernel, memcpy or memset."""
        return self.kind.count(kind)


def eager_step(trace: Trace, traced_steps: tuple[Step, ...] | None = None) -> EagerStep | Missing:
    """The typical step of ``trace``, or why there is none; ``traced_steps`` are its steps, where
    they are known already. Near-linear in the rows of the trace."""
    traced_steps = traced_steps or steps(trace)
    without = missing_gpu_work(trace)
    if without is not None:
        return _no_step(without.reason)
    calls = _Calls(trace)
    work = _Work(trace)
    read = [_Read(work, step, calls, at) for at, step in enumerate(traced_steps)]
    filled = [step_read for step_read in read if len(step_read.rows)]
    if not filled:
        return _no_step("none of its steps launched work on the GPU")
    usual = Counter(step_read.signature for step_read in filled).most_common(1)[0][0]
    like = [step_read for step_read in filled if step_read.signature == usual]
    typical = _typical(trace, like, traced_steps, calls)
    if typical.graphed:
        return _no_step(
            f"{format_count(typical.graphed)} of its {format_count(len(typical))} kernels, memcpys "
            "and memsets "
            f"({format_percent(typical.graphed / len(typical))}) come from graph launches: it is "
            "no eager trace"
        )
    captures = [begin for begin, _ in capture_windows("", trace)]
    if any(
        step_read.step.start <= begin < step_read.step.end
        for step_read in like
        for begin in captures
    ):
        return _no_step("its steps capture graphs: what a capture launches does not run in it")
    return typical


def _no_step(reason: str) -> Missing:
    return Missing(Fact.EAGER_STEP, reason)


class _Calls:
    def __init__(self, trace: Trace) -> None:
        codes, names = encode(trace.runtime["name"])
        self.start = column(trace.runtime, "ts")
        self.end = self.start + np.maximum(column(trace.runtime, "dur"), 0)
        self.waits = np.flatnonzero(_are(codes, [name.startswith(_WAITS) for name in names]))
        self.records = np.flatnonzero(_are(codes, [name.startswith(_RECORDS) for name in names]))
        self._thread = column(trace.runtime, "tid")
        self._ops = trace.ops
        self.is_graph = _are(codes, [call_class(n) is CallClass.GRAPH_LAUNCH for n in names])
        self.of_row = link_launches(
            column(trace.gpu, "correlation"), column(trace.runtime, "correlation")
        ).launch
        self.launched, _ = launch_times(trace, self.of_row)

    def at(self, instants: Ints, call: Ints, otherwise: Ints) -> Ints:
        """Of each of ``call`` its place in ``instants``; ``otherwise`` where it is -1."""
        if not len(instants):
            return otherwise
        return np.where(call >= 0, instants[np.maximum(call, 0)], otherwise)

    def between_streams(self, begin: int, end: int) -> StreamCalls:
        """The calls of a step by which streams wait for each other."""
        waits = _between(self.waits, self.start, begin, end)
        records = _between(self.records, self.start, begin, end)
        return StreamCalls(self.start[waits], self._in_operator(waits), self.start[records])

    def _in_operator(self, rows: Ints) -> Flags:
        """Whether each call was made inside an operator."""
        if not len(self._ops) or not len(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        ops = Nesting.build(*(column(self._ops, name) for name in ("ts", "dur", "tid")))
        around = ops.around(self.start[rows], self._thread[rows])
        return np.asarray(around != NONE, dtype=np.bool_)


def _between(rows: Ints, start: Ints, begin: int, end: int) -> Ints:
    return rows[(start[rows] >= begin) & (start[rows] < end)]


def _are(codes: npt.NDArray[np.int32], wanted: list[bool]) -> Flags:
    if not wanted:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(np.array(wanted, dtype=np.bool_)[codes], dtype=np.bool_)


class _Work:
    """What is asked of the GPU's work for each step; read once for all of them."""

    def __init__(self, trace: Trace) -> None:
        gpu = trace.gpu
        self.begin = column(gpu, "ts")
        self.duration = column(gpu, "dur")
        self.stream = column(gpu, "stream") + (column(gpu, "device") << 32)

        def looks() -> Iterator[Ints]:
            for name in ("kind", "name"):
                yield gpu[name].to_physical().to_numpy().astype(np.int64)
            for name in (*_SHAPE, "bytes"):
                yield column(gpu, name)

        self.looks = distinct_rows(looks)[1]


class _Read:
    """One step's work in the order of launch; what has no known launch by its start."""

    def __init__(self, work: _Work, step: Step, calls: _Calls, position: int) -> None:
        self.position = position  # among the steps; their own numbers may repeat
        rows = step.gpu_rows
        begin = work.begin[rows]
        call = calls.of_row[rows]
        launched = calls.launched[rows]
        order = np.lexsort((begin, launched))
        self.step, self.rows, self.call = step, rows[order], call[order]
        self.launched = launched[order]
        self.begin = begin[order] - step.start
        self.duration = np.maximum(work.duration[self.rows], 0)
        self.looks = work.looks[self.rows]
        stream = work.stream[self.rows]
        self.lane = _by_first_use(stream)
        self.has_default = bool(((stream & 0xFFFFFFFF) == _DEFAULT_STREAM).any())
        # All of it told apart by 16 bytes: a trace may have thousands of steps.
        looks = np.stack((self.looks, self.lane))
        self.signature = blake2b(looks.tobytes(), digest_size=16).digest()

    def items(self, calls: _Calls) -> LaunchedItems:
        """The items on the clock of the trace."""
        begin = self.begin + self.step.start
        submitted = calls.at(calls.end, self.call, begin)
        return LaunchedItems(self.lane, self.launched, submitted, begin, begin + self.duration)


def _by_first_use(stream: Ints) -> Ints:
    values, first, inverse = np.unique(stream, return_index=True, return_inverse=True)
    rank = np.empty(len(values), dtype=np.int64)
    # The default stream is where a program begins, though its first work may be on another one.
    rank[np.lexsort((first, values & 0xFFFFFFFF != _DEFAULT_STREAM))] = np.arange(len(values))
    return np.asarray(rank[inverse.reshape(-1)], dtype=np.int64)


def _typical(
    trace: Trace, reads: Sequence[_Read], traced_steps: tuple[Step, ...], calls: _Calls
) -> EagerStep:
    first = reads[0]
    gpu, rows = trace.gpu, first.rows
    blocks = np.prod(
        [np.maximum(column(gpu, dimension)[rows], 0) for dimension in _SHAPE[:3]], axis=0
    )
    threads = np.prod(
        [np.maximum(column(gpu, dimension)[rows], 0) for dimension in _SHAPE[3:]], axis=0
    )
    names = tuple(name or "" for name in gpu["name"].gather(rows).to_list())
    duration = _medians([read.duration for read in reads])
    between = calls.between_streams(first.step.start, first.step.end)
    return EagerStep(
        method=first.step.method,
        steps=traced_steps,
        matching=tuple(read.position for read in reads),
        rows=rows,
        launches=first.call,
        kind=tuple(gpu["kind"].gather(rows).to_list()),
        name=names,
        duration=duration,
        alone=_alone(reads, duration, names),
        lane=first.lane,
        blocks=blocks,
        threads=threads,
        shared=np.maximum(column(gpu, "shared")[rows], 0),
        registers=np.maximum(column(gpu, "registers")[rows], 0),
        size=np.maximum(column(gpu, "bytes")[rows], 0),
        after=stream_waits(
            [read.items(calls) for read in reads], between, first.has_default, _talks(first, names)
        ),
        overlapped=np.stack([_overlaps(read) for read in reads]).min(axis=0),
        begin=_medians([read.begin for read in reads]),
        step_ns=int(np.median([read.step.duration_ns for read in reads])),
        busy_ns=int(np.median([read.step.busy_ns for read in reads])),
        work_ns=int(np.median([read.step.work_ns for read in reads])),
        launch_cpu_ns=int(np.median([_launch_cpu(read, calls) for read in reads])),
        waits=len(between.waits),
        graphed=int(np.count_nonzero(calls.is_graph[first.call[first.call >= 0]])),
    )


def _talks(read: _Read, names: Sequence[str]) -> Flags:
    """Which lanes have collectives, shape (lanes,)."""
    talks = np.zeros(int(read.lane.max()) + 1, dtype=np.bool_)
    talks[read.lane[[collective_kind(name) is not None for name in names]]] = True
    return talks


def _medians(series: list[Ints]) -> Ints:
    return np.asarray(np.rint(np.median(np.stack(series), axis=0)), dtype=np.int64)


_BESIDE: Final = 0.05
"""The share of an item's time in which others run beside it, up to which it counts as alone."""
_EQUAL: Final = 1.2
_EQUAL_NS: Final = 2_000
"""Items that look alike take equally long by themselves where none takes more than so many times,
or so many ns more than, another."""


def _alone(reads: Sequence[_Read], duration: Ints, names: Sequence[str]) -> Ints:
    """Durations without work of other streams beside it: of the item itself in the steps in which
    it had none, else of others that look like it and take equally long, which persistent kernels of
    different sizes do not. Never more than its own, nor less than what of it ran alone. Collectives
    keep their own: they look alike whatever their sizes. So does what runs beside one alone, as it
    does in a replay."""
    first = reads[0]
    if not first.lane.max():
        return duration
    talks = _talks(first, names)[first.lane]
    durations = np.stack([read.duration for read in reads])
    beside = np.stack([_beside(read, ~talks) for read in reads])
    free = beside <= _BESIDE * durations
    alone = duration.copy()
    for crowded in np.flatnonzero(~free.all(axis=0) & ~talks).tolist():
        own = free[:, crowded]
        if own.any():
            seen = durations[own, crowded]
        else:
            like = np.flatnonzero(first.looks == first.looks[crowded])
            seen = durations[:, like][free[:, like]]
            if not _take_equally_long(seen, durations[:, like][~free[:, like]]):
                continue
        least = int(np.median(durations[:, crowded] - beside[:, crowded]))
        alone[crowded] = min(alone[crowded], max(round(float(np.median(seen))), least))
    return alone


def _take_equally_long(free: Ints, crowded: Ints) -> bool:
    """Whether items that look alike are of one size, by the durations of those that ran by
    themselves and of those that cannot have taken less than they would have so."""
    if not len(free):
        return False
    least, most = min(int(free.min()), int(crowded.min())), int(free.max())
    return most <= max(_EQUAL * least, least + _EQUAL_NS)


def _beside(read: _Read, counts: Flags) -> Ints:
    """How long work of other streams, of the items that ``counts`` (items,) marks, ran beside each
    item, in ns."""
    beside = np.zeros(len(read.rows), dtype=np.int64)
    end = read.begin + read.duration
    for lane in np.unique(read.lane):
        mine, others = read.lane == lane, (read.lane != lane) & counts
        if not others.any():
            continue
        busy = merge_busy(np.zeros(int(others.sum()), np.int64), read.begin[others], end[others])
        beside[mine] = busy.busy_before(0, end[mine]) - busy.busy_before(0, read.begin[mine])
    return beside


def _launch_cpu(read: _Read, calls: _Calls) -> int:
    """From the step's begin to the return of its last call that submits work."""
    linked = read.call[read.call >= 0]
    return int(calls.end[linked].max()) - read.step.start if len(linked) else read.step.duration_ns


def _overlaps(read: _Read) -> Ints:
    """By how much each item began before what is ahead of it on its stream had ended."""
    overlap = np.zeros(len(read.rows), dtype=np.int64)
    for lane in np.unique(read.lane):
        mine = np.flatnonzero(read.lane == lane)
        mine = mine[np.argsort(read.begin[mine], kind="stable")]
        end = np.maximum.accumulate(read.begin[mine] + read.duration[mine])
        own = read.begin[mine][1:] + read.duration[mine][1:]
        overlap[mine[1:]] = np.maximum(np.minimum(end[:-1], own) - read.begin[mine][1:], 0)
    return overlap


def exclusive_busy_ns(step: EagerStep) -> Ints:
    """What each item adds to the busy time of the traced step, in ns."""
    order = np.argsort(step.begin, kind="stable")
    exclusive = np.zeros(len(step), dtype=np.int64)
    exclusive[order] = exclusive_ns(step.begin[order], step.begin[order] + step.duration[order])
    return exclusive


class WorkSignature(Struct, frozen=True):
    """What one step launched, in order: kind, name, grid, block and size of each item, and the
    launching rows of ``trace.runtime`` (-1: not told)."""

    looks: list[tuple[object, ...]]
    launches: Ints


def steps_of_other_work(trace: Trace, step: EagerStep) -> tuple[int, ...]:
    """Indices of the steps of ``trace`` that ran other work than the typical ``step``, or the same
    in another order, whatever the streams; those without work are left out."""
    work, calls = _Work(trace), _Calls(trace)

    def looks(position: int) -> Ints:
        return work.looks[_Read(work, step.steps[position], calls, position).rows]

    usual = looks(step.matching[0])
    others = sorted(set(range(len(step.steps))).difference(step.matching))
    return tuple(
        position
        for position in others
        if len(step.steps[position].gpu_rows) and not np.array_equal(looks(position), usual)
    )


def work_signature(trace: Trace, step: Step) -> WorkSignature:
    """The work of any step of the trace, to be compared with another one's."""
    read = _Read(_Work(trace), step, _Calls(trace), 0)
    columns = [
        trace.gpu["kind"].gather(read.rows).to_list(),
        trace.gpu["name"].gather(read.rows).to_list(),
        *(column(trace.gpu, name)[read.rows].tolist() for name in (*_SHAPE, "bytes")),
    ]
    return WorkSignature(list(zip(*columns, strict=True)), read.call)
