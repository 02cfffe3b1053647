"""GPU work of a typical step in an eager trace: durations, streams and dependencies.

Durations are medians over the steps with the same work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import (
    Flags,
    Ints,
    compute_medians,
    encode,
    get_column,
    get_spans,
    get_streams,
    get_threads,
)
from graphviz_dash.analysis.attribution.attribution import find_capture_windows
from graphviz_dash.analysis.prediction.stream_order import (
    LaunchedItems,
    StreamCalls,
    find_stream_waits,
)
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.collectives import get_collective_kind
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.integrity import Claim, TraceIntegrity, assess_integrity
from graphviz_dash.analysis.trace.intervals import NONE, Nesting
from graphviz_dash.analysis.trace.lanes import link_trace_launches, merge_busy
from graphviz_dash.analysis.trace.signatures import find_distinct_rows
from graphviz_dash.analysis.trace.steps import (
    Step,
    StepMethod,
    compute_launch_times,
    find_steps,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.trace import Trace
from graphviz_dash.units import format_count, format_percent, pluralize

LAUNCHING_NS: Final = 1_000_000
"""Time between launches within which everything counts as launching.

Launches and launching operators exceed it only if they load or compile code or the profiler delays
them.
"""

_SHAPE_COLUMNS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_DEFAULT_STREAM: Final = 7
"""CUPTI's ID of the legacy default stream."""

_MAX_GRAPHED_SHARE: Final = 0.5

_WAITS: Final = ("cudaStreamWaitEvent", "cuStreamWaitEvent", "hipStreamWaitEvent")
_RECORDS: Final = ("cudaEventRecord", "cuEventRecord", "hipEventRecord")


class EagerStep(Struct, frozen=True):
    """A typical step of an eager trace.

    Parallel arrays over its items (kernels, copies, sets) in launch order, shape (items,).
    """

    method: StepMethod
    steps: tuple[Step, ...]
    matching: tuple[int, ...]
    """Indices of the steps with this work."""
    differing: tuple[int, ...]
    """Indices of complete steps with different work or order, on any streams.

    A first or last step with a part of the same work is excluded: the recording may have cut it.
    """
    rows: Ints
    """Rows of ``trace.gpu`` of the first matching step."""
    launches: Ints
    """Rows of ``trace.runtime`` of the launch calls; -1 if unknown."""
    kind: tuple[str, ...]
    """kernel, memcpy or memset."""
    name: tuple[str, ...]
    duration: Ints
    """Median durations, in ns."""
    exclusive_duration: Ints
    """Median durations without concurrent work on other streams, if the trace shows such cases."""
    lane: Ints
    """Dense stream number; 0 is the default stream, or else the first stream used."""
    blocks: Ints
    """Blocks in a kernel's grid; 0 for others."""
    threads: Ints
    """Threads per block; 0 for others."""
    shared: Ints
    """Bytes per block; 0 for others."""
    registers: Ints
    """Registers per thread; 0 for others."""
    size: Ints
    """Bytes of memcpys and memsets; 0 for others."""
    predecessors: tuple[tuple[int, ...], ...]
    """Items on other streams that each item waits for."""
    overlapped: Ints
    """Minimum overlap with the predecessor on the same stream, in ns."""
    begin: Ints
    """Median start relative to the start of the step, in ns."""
    step_ns: int
    busy_ns: int
    """Median time with a running item."""
    work_ns: int
    """Median sum of durations."""
    launch_cpu_ns: int | None
    """Median CPU time for launching, without longer pauses; None if the trace shows no launches."""
    waits: int
    """Stream waits for events."""
    graphed: int
    """Items of graph launches, which a graph of the step would not change."""
    integrity: TraceIntegrity

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def stream_count(self) -> int:
        """Number of streams with work."""
        return int(self.lane.max()) + 1 if len(self.lane) else 0

    @property
    def has_unlike_steps(self) -> bool:
        """True if most complete steps run other work."""
        complete = [at for at in self.integrity.complete_steps if len(self.steps[at].gpu_rows)]
        return 2 * len(self.matching) < len(complete)

    @property
    def waits_for_ranks(self) -> bool:
        """True if it has collectives, whose traced time depends on other ranks."""
        return any(get_collective_kind(name) for name in dict.fromkeys(self.name))


def build_eager_step(
    trace: Trace,
    traced_steps: tuple[Step, ...] | None = None,
    integrity: TraceIntegrity | None = None,
) -> EagerStep | Missing:
    """Build the typical step of ``trace``, or explain why there is none; near-linear in its rows.

    ``traced_steps`` and ``integrity`` are computed if None.
    """
    traced_steps = traced_steps or find_steps(trace)
    no_gpu_work = find_missing_gpu_work(trace)
    if no_gpu_work is not None:
        return _make_missing_step(no_gpu_work.reason)
    calls = _Calls(trace)
    integrity = integrity or assess_integrity(trace, traced_steps, calls.links)
    step_reads = _read_steps(trace, traced_steps, calls, integrity)
    if isinstance(step_reads, Missing):
        return step_reads
    typical = _build_typical_step(trace, step_reads, traced_steps, calls, integrity)
    if typical.graphed > _MAX_GRAPHED_SHARE * len(typical):
        return _make_missing_step(
            f"{format_count(typical.graphed)} of its {format_count(len(typical))} kernels, memcpys "
            "and memsets "
            f"({format_percent(typical.graphed / len(typical))}) come from graph launches, so it "
            "is not an eager trace"
        )
    captures = [begin for begin, _ in find_capture_windows("", trace)]
    if any(
        step_read.step.start <= begin < step_read.step.end
        for step_read in step_reads[0]
        for begin in captures
    ):
        return _make_missing_step(
            "its steps capture graphs, and work launched during a capture does not run"
        )
    return typical


def _read_steps(
    trace: Trace, traced_steps: tuple[Step, ...], calls: _Calls, integrity: TraceIntegrity
) -> tuple[list[_StepWork], tuple[int, ...]] | Missing:
    """Read the complete steps with the most frequent work, and find those that differ."""
    if (unsupported_claim := integrity.explain(Claim.WORK)) is not None:
        return unsupported_claim
    work = _GpuWork(trace)
    candidates = integrity.complete_steps if integrity.steps else range(len(traced_steps))
    step_reads = [_StepWork(work, traced_steps[at], calls, at) for at in candidates]
    nonempty = [step_read for step_read in step_reads if len(step_read.rows)]
    if not nonempty:
        return _make_missing_step("none of its steps launched work on the GPU")
    typical = Counter(step_read.signature for step_read in nonempty).most_common(1)[0][0]
    matching = [step_read for step_read in nonempty if step_read.signature == typical]
    if integrity.steps and len(matching) < integrity.needed_steps:
        return _make_missing_step(
            "records are missing, and no "
            f"{pluralize(integrity.needed_steps, 'complete step')} ran the same work"
        )
    if (devices := _count_step_devices(trace, traced_steps, calls)) > 1:
        return _make_missing_step(
            f"its work runs on {devices:,} GPUs, and a graph is predicted for one: record a step "
            "that uses one GPU, for example with CUDA_VISIBLE_DEVICES"
        )
    looks, outer = matching[0].looks, (0, len(traced_steps) - 1)
    differing = tuple(
        step_read.position
        for step_read in nonempty
        if not np.array_equal(step_read.looks, looks)
        and not (step_read.position in outer and is_part(step_read.looks.tolist(), looks.tolist()))
    )
    return matching, differing


def _count_step_devices(trace: Trace, traced_steps: tuple[Step, ...], calls: _Calls) -> int:
    """Include kernels without a launch, whose step is unknown."""
    device = get_column(trace.gpu, "device")
    kernels = (trace.gpu["kind"] == "kernel").fill_null(False).to_numpy()
    in_steps = kernels & (calls.of_row < 0)
    for step in traced_steps:
        in_steps[step.gpu_rows] = True
    return len(np.unique(device[in_steps]))


def _make_missing_step(reason: str) -> Missing:
    return Missing(Fact.EAGER_STEP, reason)


class _Calls:
    def __init__(self, trace: Trace) -> None:
        codes, names = encode(trace.runtime["name"])
        self.start, self.end = get_spans(trace.runtime)
        self.waits = np.flatnonzero(
            _match_codes(codes, [name.startswith(_WAITS) for name in names])
        )
        self.records = np.flatnonzero(
            _match_codes(codes, [name.startswith(_RECORDS) for name in names])
        )
        self._thread = get_threads(trace.runtime)
        self._ops = trace.ops
        self.is_graph = _match_codes(
            codes, [get_call_class(n) is CallClass.GRAPH_LAUNCH for n in names]
        )
        self.links = link_trace_launches(trace)
        self.of_row = self.links.launch
        self.launched, _ = compute_launch_times(trace, self.of_row)

    def select_times(self, instants: Ints, call: Ints, otherwise: Ints) -> Ints:
        """Return the entry of ``instants`` for each ``call``; ``otherwise`` for -1."""
        if not len(instants):
            return otherwise
        return np.where(call >= 0, instants[np.maximum(call, 0)], otherwise)

    def count_graphed(self, read: _StepWork) -> int:
        """Count the items of graph launches.

        Work without a launch belongs to the step's graph launches without work, if any: roctracer
        records no correlation id for it.
        """
        is_linked = read.call >= 0
        graphed_count = int(np.count_nonzero(self.is_graph[read.call[is_linked]]))
        graphs = _filter_between(
            np.flatnonzero(self.is_graph), self.start, read.step.start, read.step.end
        )
        has_lost = len(np.setdiff1d(graphs, self.of_row)) > 0
        return graphed_count + (int(np.count_nonzero(~is_linked)) if has_lost else 0)

    def find_stream_calls(self, begin: int, end: int) -> StreamCalls:
        waits = _filter_between(self.waits, self.start, begin, end)
        records = _filter_between(self.records, self.start, begin, end)
        return StreamCalls(self.start[waits], self._is_in_operator(waits), self.start[records])

    def _is_in_operator(self, rows: Ints) -> Flags:
        if not len(self._ops) or not len(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        ops = Nesting.build(
            get_column(self._ops, "ts"), get_column(self._ops, "dur"), get_threads(self._ops)
        )
        parent_rows = ops.find_around(self.start[rows], self._thread[rows])
        return np.asarray(parent_rows != NONE, dtype=np.bool_)


def _filter_between(rows: Ints, start: Ints, begin: int, end: int) -> Ints:
    return rows[(start[rows] >= begin) & (start[rows] < end)]


def _match_codes(codes: npt.NDArray[np.int32], wanted: list[bool]) -> Flags:
    if not wanted:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(np.array(wanted, dtype=np.bool_)[codes], dtype=np.bool_)


class _GpuWork:
    """GPU work columns, read once for all steps."""

    def __init__(self, trace: Trace) -> None:
        gpu = trace.gpu
        self.begin = get_column(gpu, "ts")
        self.duration = get_column(gpu, "dur")
        self.stream = get_streams(gpu)

        def read_columns() -> Iterator[Ints]:
            for name in ("kind", "name"):
                yield gpu[name].to_physical().to_numpy().astype(np.int64)
            for name in (*_SHAPE_COLUMNS, "bytes"):
                yield get_column(gpu, name)

        self.looks = find_distinct_rows(read_columns)[1]


class _StepWork:
    """One step's work in launch order, or by its start if the launch is unknown."""

    def __init__(self, work: _GpuWork, step: Step, calls: _Calls, position: int) -> None:
        self.position = position  # among the steps; their own numbers may repeat
        rows = step.gpu_rows
        begin = work.begin[rows]
        call = calls.of_row[rows]
        launch_ends = calls.launched[rows]
        order = np.lexsort((begin, launch_ends))
        self.step, self.rows, self.call = step, rows[order], call[order]
        self.launched = launch_ends[order]
        self.begin = begin[order] - step.start
        self.duration = np.maximum(work.duration[self.rows], 0)
        self.looks = work.looks[self.rows]
        stream = work.stream[self.rows]
        self.lane = _rank_by_first_use(stream)
        self.has_default = bool(((stream & 0xFFFFFFFF) == _DEFAULT_STREAM).any())
        # A 16-byte digest, because a trace may have thousands of steps.
        looks = np.stack((self.looks, self.lane))
        self.signature = blake2b(looks.tobytes(), digest_size=16).digest()

    def get_items(self, calls: _Calls) -> LaunchedItems:
        begin = self.begin + self.step.start
        submit_times = calls.select_times(calls.end, self.call, begin)
        return LaunchedItems(self.lane, self.launched, submit_times, begin, begin + self.duration)


def _rank_by_first_use(stream: Ints) -> Ints:
    values, first, inverse = np.unique(stream, return_index=True, return_inverse=True)
    rank = np.empty(len(values), dtype=np.int64)
    # The program starts on the default stream, even if its first work is on another one.
    rank[np.lexsort((first, values & 0xFFFFFFFF != _DEFAULT_STREAM))] = np.arange(len(values))
    return np.asarray(rank[inverse.reshape(-1)], dtype=np.int64)


def _build_typical_step(
    trace: Trace,
    step_reads: tuple[Sequence[_StepWork], tuple[int, ...]],
    traced_steps: tuple[Step, ...],
    calls: _Calls,
    integrity: TraceIntegrity,
) -> EagerStep:
    reads, differing = step_reads
    first = reads[0]
    gpu, rows = trace.gpu, first.rows
    blocks = np.prod(
        [np.maximum(get_column(gpu, dimension)[rows], 0) for dimension in _SHAPE_COLUMNS[:3]],
        axis=0,
    )
    threads = np.prod(
        [np.maximum(get_column(gpu, dimension)[rows], 0) for dimension in _SHAPE_COLUMNS[3:]],
        axis=0,
    )
    names = tuple(name or "" for name in gpu["name"][rows].to_list())
    work_ns = int(np.median([read.step.work_ns for read in reads]))
    duration = _compute_typical_durations(reads, work_ns)
    stream_calls = calls.find_stream_calls(first.step.start, first.step.end)
    return EagerStep(
        method=first.step.method,
        steps=traced_steps,
        matching=tuple(read.position for read in reads),
        differing=differing,
        rows=rows,
        launches=first.call,
        kind=tuple(gpu["kind"][rows].to_list()),
        name=names,
        duration=duration,
        exclusive_duration=_estimate_exclusive_durations(reads, duration, names),
        lane=first.lane,
        blocks=blocks,
        threads=threads,
        shared=np.maximum(get_column(gpu, "shared")[rows], 0),
        registers=np.maximum(get_column(gpu, "registers")[rows], 0),
        size=np.maximum(get_column(gpu, "bytes")[rows], 0),
        predecessors=find_stream_waits(
            [read.get_items(calls) for read in reads],
            stream_calls,
            first.has_default,
            _find_collective_lanes(first, names),
        ),
        overlapped=np.stack([_measure_predecessor_overlap(read) for read in reads]).min(axis=0),
        begin=compute_medians([read.begin for read in reads]),
        step_ns=int(np.median([read.step.duration_ns for read in reads])),
        busy_ns=int(np.median([read.step.busy_ns for read in reads])),
        work_ns=work_ns,
        launch_cpu_ns=_measure_launch_cpu(reads, calls),
        waits=len(stream_calls.waits),
        graphed=calls.count_graphed(first),
        integrity=integrity,
    )


def _find_collective_lanes(read: _StepWork, names: Sequence[str]) -> Flags:
    has_collectives = np.zeros(int(read.lane.max()) + 1, dtype=np.bool_)
    has_collectives[read.lane[[get_collective_kind(name) is not None for name in names]]] = True
    return has_collectives


_MIN_MEDIAN_SUM: Final = 0.99
"""Minimum sum of median durations, relative to the median sum of a step's durations."""


def _compute_typical_durations(reads: Sequence[_StepWork], work_ns: int) -> Ints:
    """Compute the median duration of each item, extended if their sum is below that of a step.

    The durations of items may vary independently, for example with their inputs. The sum of their
    medians is then shorter than any step, and a replay seems to shorten kernels.
    """
    medians = compute_medians([read.duration for read in reads])
    total = int(medians.sum())
    if not 0 < total < _MIN_MEDIAN_SUM * work_ns:
        return medians
    return np.asarray(np.ceil(medians * (work_ns / total)), dtype=np.int64)


_MAX_OVERLAP_SHARE: Final = 0.05
"""Maximum overlapped share of an item's time for it to count as exclusive."""
_MAX_DURATION_RATIO: Final = 1.2
_MAX_DURATION_DIFFERENCE_NS: Final = 2_000
"""Equal-looking items have the same size if their durations differ at most by this ratio or this
many ns.
"""


def _estimate_exclusive_durations(
    reads: Sequence[_StepWork], duration: Ints, names: Sequence[str]
) -> Ints:
    """Estimate durations without concurrent work on other streams.

    They come from the item's own steps without overlap, or else from equal-looking items of the
    same size (persistent kernels can differ in size). The result is at most the item's own duration
    and at least its exclusive part. Collectives keep their durations because they look equal
    regardless of size. So does work that overlaps only collectives, as in a replay.
    """
    first = reads[0]
    if not first.lane.max():
        return duration
    is_collective = _find_collective_lanes(first, names)[first.lane]
    durations = np.stack([read.duration for read in reads])
    overlap = np.stack([_measure_overlap(read, ~is_collective) for read in reads])
    is_exclusive = overlap <= _MAX_OVERLAP_SHARE * durations
    exclusive = duration.copy()
    for crowded_row in np.flatnonzero(~is_exclusive.all(axis=0) & ~is_collective).tolist():
        exclusive_steps = is_exclusive[:, crowded_row]
        if exclusive_steps.any():
            samples = durations[exclusive_steps, crowded_row]
        else:
            equal_items = np.flatnonzero(first.looks == first.looks[crowded_row])
            samples = durations[:, equal_items][is_exclusive[:, equal_items]]
            if not _have_equal_size(
                samples, durations[:, equal_items][~is_exclusive[:, equal_items]]
            ):
                continue
        minimum = int(np.median(durations[:, crowded_row] - overlap[:, crowded_row]))
        exclusive[crowded_row] = min(
            exclusive[crowded_row], max(round(float(np.median(samples))), minimum)
        )
    return exclusive


def _have_equal_size(exclusive: Ints, overlapped: Ints) -> bool:
    """Return whether equal-looking items have the same size, by their durations.

    Overlapped items last at least as long as they would alone.
    """
    if not len(exclusive):
        return False
    minimum, maximum = min(int(exclusive.min()), int(overlapped.min())), int(exclusive.max())
    return maximum <= max(_MAX_DURATION_RATIO * minimum, minimum + _MAX_DURATION_DIFFERENCE_NS)


def _measure_overlap(read: _StepWork, counts: Flags) -> Ints:
    """Return how long other streams' work (mask ``counts``) overlapped each item, in ns."""
    overlap = np.zeros(len(read.rows), dtype=np.int64)
    end = read.begin + read.duration
    for lane in np.unique(read.lane):
        on_lane, others = read.lane == lane, (read.lane != lane) & counts
        if not others.any():
            continue
        busy = merge_busy(np.zeros(int(others.sum()), np.int64), read.begin[others], end[others])
        overlap[on_lane] = busy.measure_overlap(read.begin[on_lane], end[on_lane])
    return overlap


def _measure_launch_cpu(reads: Sequence[_StepWork], calls: _Calls) -> int | None:
    """Measure the CPU time until the last launch returns, without pauses before a launch and calls
    that are too long for launching: waits for data, copies that wait for the GPU.
    """
    times = []
    for read in reads:
        launches = np.unique(read.call[read.call >= 0])
        if not len(launches):
            return None
        begin, end = calls.start[launches], np.maximum.accumulate(calls.end[launches])
        previous = np.append(read.step.start, end[:-1])
        waits = (begin - previous, end - np.maximum(begin, previous))
        waited_ns = sum(int(wait[wait > LAUNCHING_NS].sum()) for wait in waits)
        times.append(int(end[-1]) - read.step.start - waited_ns)
    return int(np.median(times))


def _measure_predecessor_overlap(read: _StepWork) -> Ints:
    overlap = np.zeros(len(read.rows), dtype=np.int64)
    for lane in np.unique(read.lane):
        indices = np.flatnonzero(read.lane == lane)
        indices = indices[np.argsort(read.begin[indices], kind="stable")]
        end = np.maximum.accumulate(read.begin[indices] + read.duration[indices])
        item_end = read.begin[indices][1:] + read.duration[indices][1:]
        overlap[indices[1:]] = np.maximum(
            np.minimum(end[:-1], item_end) - read.begin[indices][1:], 0
        )
    return overlap


class WorkSignature(Struct, frozen=True):
    """The work of one step in launch order.

    ``appearances`` holds kind, name, grid, block and size of each item; ``launches`` the rows in
    ``trace.runtime`` (-1 if unknown).
    """

    appearances: list[tuple[object, ...]]
    launches: Ints


def is_part(looks: Iterable[object], typical: Iterable[object]) -> bool:
    """Return whether ``looks`` is ``typical`` with some items missing."""
    remaining = iter(typical)
    return all(look in remaining for look in looks)


def get_work_signature(trace: Trace, step: Step) -> WorkSignature:
    """Return the work of a step for comparison."""
    read = _StepWork(_GpuWork(trace), step, _Calls(trace), 0)
    columns = [
        trace.gpu["kind"][read.rows].to_list(),
        trace.gpu["name"][read.rows].to_list(),
        *(get_column(trace.gpu, name)[read.rows].tolist() for name in (*_SHAPE_COLUMNS, "bytes")),
    ]
    return WorkSignature(list(zip(*columns, strict=True)), read.call)
