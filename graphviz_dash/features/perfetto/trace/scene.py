"""Format-independent view of an experiment for trace viewers.

Each run is a process with threads and GPU streams as tracks of slices, arrows from launches to GPU
work, and a GPU utilization counter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from graphviz_dash import __version__
from graphviz_dash.analysis.arrays import Ints, get_column
from graphviz_dash.analysis.trace.lanes import (
    link_trace_launches,
    merge_busy,
    split_overlaps,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.perfetto.trace.family_tracks import build_family_steps
from graphviz_dash.features.perfetto.trace.lanes import split_nested_lanes
from graphviz_dash.features.perfetto.trace.run_alignment import AlignedRun, Alignment, align_runs
from graphviz_dash.features.perfetto.trace.slice_arguments import build_gpu_args
from graphviz_dash.features.perfetto.trace.slices import (
    Arg,
    SliceTable,
    build_column_arg,
    build_count_arg,
    encode_names,
    stack_tables,
)
from graphviz_dash.model.marks import STEP
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace

Floats: TypeAlias = npt.NDArray[np.float64]

_LARGEST_TID: Final = (1 << 31) - 1
_FAMILY_TIDS: Final = 1 << 20
"""Distance of family track ids from the largest thread id."""


class Lane(Struct, frozen=True):
    """Lane of a track: nesting ``rows`` of the run's table, in the order of their begins.

    ``overflow`` is 0, or the number of the overflow lane.
    """

    rows: Ints
    overflow: int


class ThreadTrack(Struct, frozen=True):
    """CPU thread; ``tid`` is the system's id if it is valid."""

    tid: int
    name: str
    lanes: tuple[Lane, ...]
    is_family: bool = False
    """Shows the steps of a graph family instead of a thread."""


class StreamTrack(Struct, frozen=True):
    """GPU stream; slices in a lane do not overlap."""

    name: str
    lanes: tuple[Lane, ...]


class Counter(Struct, frozen=True):
    """Step function: each value holds until the next time."""

    name: str
    description: str
    """Meaning of the values."""
    unit: str
    ts: Ints
    """In ns of the exported trace, ascending, shape (values,)."""
    value: Floats
    """Shape (values,)."""


class DeviceTracks(Struct, frozen=True):
    """GPU of a run."""

    name: str
    """Number, as in "GPU 0"."""
    model: str
    """From the driver; empty if unknown."""
    busy: Counter
    """Share of time with work on at least one stream."""
    streams: tuple[StreamTrack, ...]


class RunScene(Struct, frozen=True):
    """Run shown as a process."""

    pid: int
    """Number from 1, since system process ids repeat."""
    name: str
    labels: tuple[str, ...]
    """Workload, GPU and rank, shown next to the name."""
    description: str
    """Traced pass and machine in one sentence."""
    cpu: SliceTable
    """Annotations, operators and API calls."""
    gpu: SliceTable
    threads: tuple[ThreadTrack, ...]
    """Tracks of ``cpu``."""
    devices: tuple[DeviceTracks, ...]
    """Tracks of ``gpu``."""


class Scene(Struct, frozen=True):
    """Experiment as shown in a trace viewer."""

    title: str
    """Name of the experiment."""
    alignment: Alignment
    runs: tuple[RunScene, ...]
    """In the order of the experiment, baseline first."""
    facts: dict[str, str]
    """Notes for readers of the trace."""


def build_scene(experiment: Experiment) -> Scene:
    """Build the scene of all runs that have a replay trace.

    Raises:
        InputError: no run has one.
    """
    alignment = align_runs(experiment)
    runs = tuple(_build_run_scene(pid, run, alignment) for pid, run in enumerate(alignment.runs, 1))
    return Scene(
        title=escape_control_characters(experiment.name),
        alignment=alignment,
        runs=runs,
        facts=_build_facts(experiment, runs, alignment),
    )


def _build_facts(
    experiment: Experiment, runs: tuple[RunScene, ...], alignment: Alignment
) -> dict[str, str]:
    facts = {
        "exporter": f"graphviz-dash {__version__}",
        "experiment": escape_control_characters(experiment.name),
        "alignment": f"The first traced step of every run starts at {alignment.at} ns. "
        "Different runs share no clock: compare durations within steps, not times. The step's "
        "argument source_ts_ns is its start in its own trace.",
        "pass": "Times come from the traced pass with the profiler attached, which slows "
        "launches. Speedups come from the clean pass, which has no trace.",
        "gpu_busy": f"Share of each bin of {alignment.bin_ns} ns in which at least one stream of "
        "the GPU runs a kernel, memcpy or memset; bins start at the aligned steps.",
    }
    if any(run.shares_clock for run in alignment.runs):
        facts["ranks"] = (
            "Ranks of one mode share the clock of the first rank; the others are shifted so "
            "that their collectives end together."
        )
    facts |= {f"run.{run.name}": run.description for run in runs}
    return facts | {f"left_out.{name}": reason for name, reason in alignment.skipped}


def _build_run_scene(pid: int, aligned: AlignedRun, alignment: Alignment) -> RunScene:
    run, trace, shift = aligned.run, aligned.trace, aligned.shift
    links = link_trace_launches(trace)
    # One flow per launched row: a launch of many rows would otherwise become a chain of arrows.
    ids = (np.int64(pid) << 40) + np.arange(trace.gpu.height) + 1
    linked = links.launch >= 0
    gpu = _build_table(
        trace.gpu,
        shift,
        "kind",
        build_gpu_args(run, trace),
        (np.concatenate((np.zeros(1, np.int64), np.cumsum(linked))), ids[linked]),
    )
    cpu, threads = _build_cpu(trace, shift, (links.row_offsets, ids[links.order]))
    cpu, families = _append_family_steps(cpu, build_family_steps(run.loop, aligned.steps, shift))
    environment = run.manifest.environment
    workload = escape_control_characters(run.manifest.workload.name)
    count = len(aligned.steps) if aligned.has_marked_steps else "no marked"
    return RunScene(
        pid=pid,
        name=escape_control_characters(run.name),
        labels=(
            workload,
            escape_control_characters(environment.gpu_name),
            *_format_rank_labels(run),
        ),
        description=escape_control_characters(
            f"{workload}, mode {run.mode.value}, traced pass of {count} steps on "
            f"{environment.gpu_name}, driver {environment.driver or 'unknown'}, CUDA "
            f"{environment.cuda_runtime or 'unknown'}, torch {environment.torch or 'unknown'}, "
            f"{'recorded' if run.manifest.sources else 'collected'} "
            f"{run.manifest.recording_time or 'on an unknown date'}"
        ),
        cpu=cpu,
        gpu=gpu,
        threads=(*families, *threads),
        devices=_build_devices(trace, gpu, alignment.bin_ns),
    )


def _append_family_steps(
    cpu: SliceTable, steps: tuple[SliceTable, Mapping[str, Ints]]
) -> tuple[SliceTable, tuple[ThreadTrack, ...]]:
    """Append steps to ``cpu`` and build a track for each family."""
    table, families = steps
    if not len(table):
        return cpu, ()
    tracks = tuple(
        ThreadTrack(
            _LARGEST_TID - _FAMILY_TIDS - number,
            f"steps of {family}",
            (Lane(rows + len(cpu), 0),),
            is_family=True,
        )
        for number, (family, rows) in enumerate(families.items())
    )
    return stack_tables([cpu, table]), tracks


def _format_rank_labels(run: Run) -> tuple[str, ...]:
    manifest = run.manifest
    if manifest.job_rank is None:
        return ()
    suffix = "" if manifest.group is None else f" of {manifest.group.world_size}"
    return (f"rank {manifest.rank}{suffix}",)


def _build_table(
    frame: pl.DataFrame,
    shift: int,
    category: str,
    args: list[Arg],
    flows: tuple[Ints, Ints] | None = None,
) -> SliceTable:
    """Convert ``frame`` to slices; ``category`` is a column, or the category of all rows."""
    start = get_column(frame, "ts") + shift
    name, names = encode_names(frame["name"])
    if category in frame.columns:
        kind, kinds = encode_names(frame[category])
    else:
        kind, kinds = np.zeros(frame.height, dtype=np.int64), (category,)
    none = (np.zeros(frame.height + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
    flow_first, flow_ids = flows or none
    return SliceTable(
        start=start,
        end=start + np.maximum(get_column(frame, "dur"), 0),
        name=name,
        names=names,
        category=kind,
        categories=kinds,
        args=tuple(arg for arg in args if arg.present.any()),
        flow_first=flow_first,
        flow_ids=flow_ids,
    )


def _build_cpu(
    trace: Trace, shift: int, launches: tuple[Ints, Ints]
) -> tuple[SliceTable, tuple[ThreadTrack, ...]]:
    """Combine annotations, operators and API calls."""
    marks = trace.annotations["name"].fill_null("").str.starts_with(STEP).to_numpy()
    annotations = trace.annotations.with_columns(
        kind=pl.Series(np.where(marks, "step", "annotation"), dtype=pl.Categorical)
    )
    source = pl.Series(
        np.where(marks, get_column(trace.annotations, "ts") + trace.info.origin_ns, -1)
    )
    ops, runtime = trace.ops, trace.runtime
    # Outermost slices come first: of slices with equal times, the first is the outer one.
    table = stack_tables(
        [
            _build_table(annotations, shift, "kind", [build_count_arg("source_ts_ns", source)]),
            _build_table(
                ops,
                shift,
                "op",
                [
                    build_column_arg("input_dims", ops["input_dims"]),
                    build_column_arg("input_types", ops["input_types"]),
                    build_count_arg("sequence", ops["sequence"]),
                ],
            ),
            _build_table(
                runtime,
                shift,
                "runtime",
                [build_count_arg("correlation", runtime["correlation"])],
                launches,
            ),
        ]
    )
    frames = (trace.annotations, ops, runtime)
    pid = np.concatenate([get_column(frame, "pid") for frame in frames])
    tid = np.concatenate([get_column(frame, "tid") for frame in frames])
    return table, _build_threads(table, pid, tid)


def _build_threads(table: SliceTable, pid: Ints, tid: Ints) -> tuple[ThreadTrack, ...]:
    """Sort by number of steps and then of slices, descending."""
    if not len(table):
        return ()
    pairs, thread = np.unique(np.stack((pid, tid), axis=1), axis=0, return_inverse=True)
    thread_index = thread.ravel()
    is_step = np.array([text == "step" for text in table.categories])[table.category]
    stepped = np.bincount(thread_index[is_step], minlength=len(pairs))
    order = np.lexsort((-np.bincount(thread_index), -stepped))
    several = len(np.unique(pairs[:, 0])) > 1
    tracks: list[ThreadTrack] = []
    for track_rank, pair_index in enumerate(order.tolist()):
        process_id, thread_id = (int(value) for value in pairs[pair_index])
        rows = np.flatnonzero(thread_index == pair_index)
        lanes = split_nested_lanes(table.start[rows], table.end[rows])
        name = "CPU thread" + (f" of process {process_id}" if several else "")
        is_valid = 0 < thread_id <= _LARGEST_TID and thread_id not in {
            track.tid for track in tracks
        }
        tracks.append(
            ThreadTrack(
                tid=thread_id if is_valid else _LARGEST_TID - track_rank,
                name=name if is_valid else f"{name} {thread_id}",
                lanes=tuple(Lane(rows[lane], n) for n, lane in enumerate(lanes)),
            )
        )
    return tuple(tracks)


def _build_devices(trace: Trace, gpu: SliceTable, bin_ns: int) -> tuple[DeviceTracks, ...]:
    device, stream = get_column(trace.gpu, "device"), get_column(trace.gpu, "stream")
    busy = merge_busy(device, gpu.start, gpu.end)
    tracks = []
    for lane, device_id in enumerate(busy.owner.tolist()):
        periods = busy.get_span(lane)
        first = int(busy.start[periods][0]) // bin_ns
        last = -(-int(busy.end[periods][-1]) // bin_ns)
        edges = np.arange(first, max(last, first + 1) + 1, dtype=np.int64) * bin_ns
        percent = busy.compute_busy_between(lane, edges).astype(np.float64) * (100 / bin_ns)
        device_rows = np.flatnonzero(device == device_id)
        names = trace.info.device_names
        is_named = 0 <= device_id < len(names)
        tracks.append(
            DeviceTracks(
                name=f"GPU {device_id}",
                model=escape_control_characters(names[device_id]) if is_named else "",
                busy=_build_counter(edges, percent, bin_ns),
                streams=tuple(
                    _build_stream(
                        int(stream_id), device_rows[stream[device_rows] == stream_id], gpu
                    )
                    for stream_id in np.unique(stream[device_rows])
                ),
            )
        )
    return tuple(tracks)


def _build_counter(edges: Ints, percent: Floats, bin_ns: int) -> Counter:
    """Add a value at each bin that changes it, and 0 after the last bin."""
    values = np.append(percent, 0.0)
    changed = np.append(True, values[1:] != values[:-1])
    return Counter(
        name="GPU busy",
        description=f"Share of each {bin_ns} ns in which at least one stream runs, in percent",
        unit="%",
        ts=edges[changed],
        value=values[changed],
    )


def _build_stream(stream: int, rows: Ints, gpu: SliceTable) -> StreamTrack:
    start, end = gpu.start[rows], gpu.end[rows]
    # An empty slice must precede a slice that starts at the same time.
    rows = rows[np.lexsort((end, start))]
    lanes = split_overlaps(gpu.start[rows], gpu.end[rows])
    return StreamTrack(
        name=f"stream {stream}" if stream >= 0 else "unknown stream",
        lanes=tuple(Lane(rows[lane], n) for n, lane in enumerate(lanes)),
    )
