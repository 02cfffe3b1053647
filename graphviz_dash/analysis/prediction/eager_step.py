"""The GPU work of one typical step of an eager trace, whoever recorded it: what ran, for how long,
on which stream, and behind what.

Durations are medians over the steps that ran the same work. What the streams wait for is told by
the calls in between: a trace does not say which streams an event joins, but a program forks from
the stream on which its step begins and joins into it, and what it waits for before a launch comes
before that launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.arrays import Flags, Ints, column, encode
from graphviz_dash.analysis.origins.captured_launches import capture_windows
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.intervals import NONE, Nesting
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.analysis.trace.signatures import distinct_rows
from graphviz_dash.analysis.trace.steps import Step, StepMethod, exclusive_ns, steps
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

_SHAPE: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_DEFAULT_STREAM: Final = 7
"""What CUPTI calls the legacy default stream."""

_WAITS: Final = ("cudaStreamWaitEvent", "cuStreamWaitEvent", "hipStreamWaitEvent")
_RECORDS: Final = ("cudaEventRecord", "cuEventRecord", "hipEventRecord")


@dataclass(frozen=True)
class EagerStep:
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
    """Bytes of copies and sets; 0 for others."""
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

    def count(self, kind: str) -> int:
        """Items of a kind: kernel, memcpy or memset."""
        return self.kind.count(kind)


def eager_step(trace: Trace, traced_steps: tuple[Step, ...] | None = None) -> EagerStep | Missing:
    """The typical step of ``trace``, or why there is none; ``traced_steps`` are its steps, where
    they are known already. Near-linear in the rows of the trace."""
    traced_steps = traced_steps or steps(trace)
    if not len(trace.gpu):
        return _no_step(
            "the trace holds no work of a GPU: was it recorded with ProfilerActivity.CUDA?"
        )
    calls = _Calls(trace)
    work = _Work(trace)
    read = [_Read(work, step, calls, at) for at, step in enumerate(traced_steps)]
    filled = [step_read for step_read in read if len(step_read.rows)]
    if not filled:
        return _no_step("none of its steps launched work on the GPU")
    usual = Counter(step_read.signature for step_read in filled).most_common(1)[0][0]
    like = [step_read for step_read in filled if step_read.signature == usual]
    typical = _typical(trace, like, traced_steps, calls)
    if typical.graphed > len(typical) / 2:
        return _no_step("its work comes from graph launches: it is no eager trace")
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

    def in_operator(self, rows: Ints) -> Flags:
        """Whether each call was made inside an operator."""
        if not len(self._ops) or not len(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        ops = Nesting.build(*(column(self._ops, name) for name in ("ts", "dur", "tid")))
        around = ops.around(self.start[rows], self._thread[rows])
        return np.asarray(around != NONE, dtype=np.bool_)


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
        launched = np.where(call >= 0, calls.start[np.maximum(call, 0)], begin)
        order = np.lexsort((begin, launched))
        self.step, self.rows, self.call = step, rows[order], call[order]
        self.launched = launched[order]
        self.begin = begin[order] - step.start
        self.duration = np.maximum(work.duration[self.rows], 0)
        stream = work.stream[self.rows]
        self.lane = _by_first_use(stream)
        self.has_default = bool(((stream & 0xFFFFFFFF) == _DEFAULT_STREAM).any())
        # All of it told apart by 16 bytes: a trace may have thousands of steps.
        looks = np.stack((work.looks[self.rows], self.lane))
        self.signature = blake2b(looks.tobytes(), digest_size=16).digest()


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
    duration = _medians([read.duration for read in reads])
    after, waits = _after(first, calls)
    return EagerStep(
        method=first.step.method,
        steps=traced_steps,
        matching=tuple(read.position for read in reads),
        rows=rows,
        launches=first.call,
        kind=tuple(gpu["kind"].gather(rows).to_list()),
        name=tuple(name or "" for name in gpu["name"].gather(rows).to_list()),
        duration=duration,
        lane=first.lane,
        blocks=blocks,
        threads=threads,
        shared=np.maximum(column(gpu, "shared")[rows], 0),
        registers=np.maximum(column(gpu, "registers")[rows], 0),
        size=np.maximum(column(gpu, "bytes")[rows], 0),
        after=after,
        overlapped=np.stack([_overlaps(read) for read in reads]).min(axis=0),
        begin=_medians([read.begin for read in reads]),
        step_ns=int(np.median([read.step.duration_ns for read in reads])),
        busy_ns=int(np.median([read.step.busy_ns for read in reads])),
        work_ns=int(np.median([read.step.work_ns for read in reads])),
        launch_cpu_ns=int(np.median([_launch_cpu(read, calls) for read in reads])),
        waits=waits,
        graphed=int(np.count_nonzero(calls.is_graph[first.call[first.call >= 0]])),
    )


def _medians(series: list[Ints]) -> Ints:
    return np.asarray(np.rint(np.median(np.stack(series), axis=0)), dtype=np.int64)


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


def _after(read: _Read, calls: _Calls) -> tuple[tuple[tuple[int, ...], ...], int]:
    """For each item those of other streams that it waits for, and how many waits there were."""
    span = read.step.start, read.step.end
    waits = _between(calls.waits, calls.start, *span)
    count = len(read.rows)
    if not count or not read.lane.max():
        return ((),) * count, len(waits)
    records = _between(calls.records, calls.start, *span)
    inside = calls.in_operator(waits)
    events = sorted(
        [
            *((int(at), _LAUNCH, item) for item, at in enumerate(read.launched.tolist())),
            *((int(calls.start[row]), _RECORD, int(row)) for row in records.tolist()),
            *(
                (int(calls.start[row]), _WAIT, int(is_inside))
                for row, is_inside in zip(waits.tolist(), inside.tolist(), strict=True)
            ),
        ]
    )
    lanes = read.lane.tolist()
    order = _StreamOrder(_main_of(read.lane, read.has_default))
    waits_for: list[tuple[int, ...]] = [()] * count
    for _, kind, which in events:
        if kind == _LAUNCH:
            waits_for[which] = order.launch(which, lanes[which])
        elif kind == _RECORD:
            order.record(which)
        else:
            order.wait(by_library=bool(which))
    return tuple(waits_for), len(waits)


def _between(rows: Ints, start: Ints, begin: int, end: int) -> Ints:
    return rows[(start[rows] >= begin) & (start[rows] < end)]


_RECORD, _WAIT, _LAUNCH = range(3)


class _StreamOrder:
    """What streams wait for, told from the events that are recorded and waited for in between.

    A trace does not say on which stream. A program's own waits lie outside of operators and go
    between a main stream and those that fork from it; a fork is one wait, a join one for each
    stream. A library's lie inside an operator: it records behind what it launched, and what is
    launched after the wait is what waits. ``main`` is the main stream's lane, None where the
    program launches nothing on it.
    """

    def __init__(self, main: int | None) -> None:
        self._main = main
        self._last: tuple[int, ...] = ()
        """The last item of the main stream, if there was one."""
        self._joined: dict[int, int] = {}
        """The last item of each stream that was joined into the main stream since."""
        self._open: dict[int, int] = {}
        """The last item of each forked stream that was not joined since."""
        self._tails: dict[int, int] = {}
        """The last item of every stream."""
        self._waits = 0
        self._newest: int | None = None
        self._recorded: tuple[int, int | None] = (-1, None)
        """The last event, and what had been launched before it."""
        self._library: dict[int, int | None] = {}
        self._library_waits = 0
        self._to_all: int | None = None
        """What a library lets all its streams wait for before their first work."""

    def record(self, event: int) -> None:
        """An event was recorded."""
        self._recorded = event, self._newest

    def wait(self, by_library: bool) -> None:
        """A stream was let wait for an event."""
        if by_library:
            event, source = self._recorded
            self._library[event] = source
            self._library_waits += 1
        else:
            self._waits += 1

    def launch(self, item: int, lane: int) -> tuple[int, ...]:
        """The items of other streams that ``item`` waits for."""
        sources = dict.fromkeys((*self._waited(lane), *self._forked(item, lane)))
        self._newest = item
        self._tails[lane] = item
        return tuple(source for source in sources if source != item)

    def _waited(self, lane: int) -> tuple[int, ...]:
        """What a library lets this launch wait for."""
        sources = dict.fromkeys(item for item in self._library.values() if item is not None)
        if len(self._library) > 1:
            # Several events at once are the streams that are joined.
            sources |= dict.fromkeys(self._tails.values())
        elif self._library_waits > 1 and sources:
            self._to_all = next(iter(sources))
        if lane not in self._tails and self._to_all is not None:
            sources[self._to_all] = None
        self._library, self._library_waits = {}, 0
        return tuple(item for item in sources if item != self._tails.get(lane))

    def _forked(self, item: int, lane: int) -> tuple[int, ...]:
        """What the program lets it wait for."""
        if lane == self._main:
            if self._waits:
                self._join()
            joined, self._joined = tuple(self._joined.values()), {}
            self._last, self._waits = (item,), 0
            return joined
        if self._waits > len(self._open) > 0:
            # More waits than a fork needs: the open streams were joined before it.
            self._waits -= len(self._open)
            self._join()
        forks = lane not in self._open and self._waits > 0
        self._waits -= forks
        self._open[lane] = item
        return (*self._last, *self._joined.values()) if forks else ()

    def _join(self) -> None:
        self._joined |= self._open
        self._open.clear()


def _main_of(lane: Ints, has_default: bool) -> int | None:
    """The main stream: the default one; else the one on which the step begins and ends, if any."""
    if has_default:
        return 0
    return int(lane[0]) if lane[0] == lane[-1] else None


def exclusive_busy_ns(step: EagerStep) -> Ints:
    """What each item adds to the busy time of the traced step, in ns."""
    order = np.argsort(step.begin, kind="stable")
    exclusive = np.zeros(len(step), dtype=np.int64)
    exclusive[order] = exclusive_ns(step.begin[order], step.begin[order] + step.duration[order])
    return exclusive


@dataclass(frozen=True)
class WorkSignature:
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
