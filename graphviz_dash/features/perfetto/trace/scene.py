"""An experiment as a trace viewer shows it: a process for each run, its threads and GPU streams as
tracks of slices, arrows from launches to what they launched, and how busy each GPU is.

Every format takes this one scene, so that they never tell different things.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from graphviz_dash import __version__
from graphviz_dash.analysis.arrays import Ints, column
from graphviz_dash.analysis.trace.lanes import link_launches, merge_busy, split_overlaps
from graphviz_dash.errors import printable
from graphviz_dash.features.perfetto.trace.family_tracks import family_steps
from graphviz_dash.features.perfetto.trace.lanes import nested_lanes
from graphviz_dash.features.perfetto.trace.run_alignment import AlignedRun, Alignment, align
from graphviz_dash.features.perfetto.trace.slice_arguments import gpu_args
from graphviz_dash.features.perfetto.trace.slices import (
    Arg,
    SliceTable,
    coded,
    column_arg,
    count_arg,
    stacked,
)
from graphviz_dash.model.marks import STEP

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment, Run
    from graphviz_dash.model.trace import Trace

Floats: TypeAlias = npt.NDArray[np.float64]

_LARGEST_TID: Final = (1 << 31) - 1
_FAMILY_TIDS: Final = 1 << 20
"""How far below the largest the numbers of tracks of families begin."""


class Lane(Struct, frozen=True):
    """One lane of a track: ``rows`` of the run's table, in the order of their begins, that nest.
    ``overflow`` is 0, or counts the lanes for what overlaps the lanes before it."""

    rows: Ints
    overflow: int


class ThreadTrack(Struct, frozen=True):
    """A CPU thread; ``tid`` is the system's where it is a plain one."""

    tid: int
    name: str
    lanes: tuple[Lane, ...]
    is_family: bool = False
    """It is no thread, but the steps of a family of graphs."""


class StreamTrack(Struct, frozen=True):
    """A GPU stream; nothing overlaps in one of its lanes."""

    name: str
    lanes: tuple[Lane, ...]


class Counter(Struct, frozen=True):
    """Values that each hold from their time to the next one's."""

    name: str
    """As viewers show it."""
    description: str
    """What the values are."""
    unit: str
    """Of the values."""
    ts: Ints
    """Shape (values,), in ns of the exported trace, ascending."""
    value: Floats
    """Shape (values,)."""


class DeviceTracks(Struct, frozen=True):
    """A GPU of a run."""

    name: str
    """Its number, as in "GPU 0"."""
    model: str
    """As the driver names it; empty where the trace does not."""
    busy: Counter
    """The share of time in which at least one stream runs."""
    streams: tuple[StreamTrack, ...]
    """Those that did any work."""


class RunScene(Struct, frozen=True):
    """One run as a process."""

    pid: int
    """The run's number from 1, for the system's process ids repeat."""
    name: str
    """The run's."""
    labels: tuple[str, ...]
    """Workload, GPU and rank, shown beside the name."""
    description: str
    """What was traced on which machine, in a sentence."""
    cpu: SliceTable
    """Annotations, operators and API calls."""
    gpu: SliceTable
    """Work on the GPU."""
    threads: tuple[ThreadTrack, ...]
    """The tracks of ``cpu``."""
    devices: tuple[DeviceTracks, ...]
    """The tracks of ``gpu``."""


class Scene(Struct, frozen=True):
    """An experiment as a trace viewer shows it."""

    title: str
    """The experiment's name."""
    alignment: Alignment
    """How the runs' times are moved."""
    runs: tuple[RunScene, ...]
    """In the order of the experiment, which puts the baseline first."""
    facts: dict[str, str]
    """What a reader of the trace ought to know, by name."""


def build_scene(experiment: Experiment) -> Scene:
    """The scene of all runs of ``experiment`` that have a replay trace.

    Raises:
        InputError: no run has one.
    """
    alignment = align(experiment)
    runs = tuple(_run_scene(pid, run, alignment) for pid, run in enumerate(alignment.runs, 1))
    return Scene(
        title=printable(experiment.name),
        alignment=alignment,
        runs=runs,
        facts=_facts(experiment, runs, alignment),
    )


def _facts(
    experiment: Experiment, runs: tuple[RunScene, ...], alignment: Alignment
) -> dict[str, str]:
    facts = {
        "exporter": f"graphviz-dash {__version__}",
        "experiment": printable(experiment.name),
        "alignment": f"The first traced step of every run starts at {alignment.at} ns. Times of "
        "different runs share no clock: compare spans within steps, not instants. The step's "
        "argument source_ts_ns is its start by the clock of its own trace.",
        "pass": "Times are of the traced pass, with the profiler attached, which slows launches "
        "down. Speedups belong to the clean pass, which no trace shows.",
        "gpu_busy": f"Share of each bin of {alignment.bin_ns} ns in which at least one stream of "
        "the GPU runs a kernel, memcpy or memset; bins begin where steps are aligned.",
    }
    if any(run.on_clock for run in alignment.runs):
        facts["ranks"] = (
            "Ranks of one mode share a clock: that of the first, to which the others are moved so "
            "that their collectives end together."
        )
    facts |= {f"run.{run.name}": run.description for run in runs}
    return facts | {f"left_out.{name}": reason for name, reason in alignment.skipped}


def _run_scene(pid: int, aligned: AlignedRun, alignment: Alignment) -> RunScene:
    run, trace, shift = aligned.run, aligned.trace, aligned.shift
    links = link_launches(column(trace.gpu, "correlation"), column(trace.runtime, "correlation"))
    # One flow for each launched row: a launch of many would else become a chain of arrows.
    ids = (np.int64(pid) << 40) + np.arange(trace.gpu.height) + 1
    linked = links.launch >= 0
    gpu = _table(
        trace.gpu,
        shift,
        "kind",
        gpu_args(run, trace),
        (np.concatenate((np.zeros(1, np.int64), np.cumsum(linked))), ids[linked]),
    )
    cpu, threads = _cpu(trace, shift, (links.first, ids[links.order]))
    cpu, families = _with_families(cpu, family_steps(run.loop, aligned.steps, shift))
    environment = run.manifest.environment
    workload = printable(run.manifest.workload.name)
    count = len(aligned.steps) if aligned.marked else "no marked"
    return RunScene(
        pid=pid,
        name=printable(run.name),
        labels=(workload, printable(environment.gpu_name), *_rank_labels(run)),
        description=printable(
            f"{workload}, mode {run.mode.value}, traced pass of {count} steps on "
            f"{environment.gpu_name}, driver {environment.driver or 'unknown'}, CUDA "
            f"{environment.cuda_runtime or 'unknown'}, torch {environment.torch or 'unknown'}, "
            f"{'recorded' if run.manifest.recorded else 'collected'} {run.manifest.measured}"
        ),
        cpu=cpu,
        gpu=gpu,
        threads=(*families, *threads),
        devices=_devices(trace, gpu, alignment.bin_ns),
    )


def _with_families(
    cpu: SliceTable, steps: tuple[SliceTable, Mapping[str, Ints]]
) -> tuple[SliceTable, tuple[ThreadTrack, ...]]:
    """``cpu`` with the steps of families behind its rows, and a track for each family."""
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
    return stacked([cpu, table]), tracks


def _rank_labels(run: Run) -> tuple[str, ...]:
    manifest = run.manifest
    if manifest.rank_of_several is None:
        return ()
    of = "" if manifest.group is None else f" of {manifest.group.world_size}"
    return (f"rank {manifest.rank}{of}",)


def _table(
    frame: pl.DataFrame,
    shift: int,
    category: str,
    args: list[Arg],
    flows: tuple[Ints, Ints] | None = None,
) -> SliceTable:
    """``frame`` as slices; ``category`` is a column, or the category of all rows."""
    start = column(frame, "ts") + shift
    name, names = coded(frame["name"])
    if category in frame.columns:
        kind, kinds = coded(frame[category])
    else:
        kind, kinds = np.zeros(frame.height, dtype=np.int64), (category,)
    none = (np.zeros(frame.height + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
    flow_first, flow_ids = flows or none
    return SliceTable(
        start=start,
        end=start + np.maximum(column(frame, "dur"), 0),
        name=name,
        names=names,
        category=kind,
        categories=kinds,
        args=tuple(arg for arg in args if arg.present.any()),
        flow_first=flow_first,
        flow_ids=flow_ids,
    )


def _cpu(
    trace: Trace, shift: int, launches: tuple[Ints, Ints]
) -> tuple[SliceTable, tuple[ThreadTrack, ...]]:
    """Annotations, operators and API calls as one table, and its threads."""
    marks = trace.annotations["name"].fill_null("").str.starts_with(STEP).to_numpy()
    annotations = trace.annotations.with_columns(
        kind=pl.Series(np.where(marks, "step", "annotation"), dtype=pl.Categorical)
    )
    source = pl.Series(np.where(marks, column(trace.annotations, "ts") + trace.info.origin_ns, -1))
    ops, runtime = trace.ops, trace.runtime
    # What may be outermost comes first: of slices with equal times it is the outer one.
    table = stacked(
        [
            _table(annotations, shift, "kind", [count_arg("source_ts_ns", source)]),
            _table(
                ops,
                shift,
                "op",
                [
                    column_arg("input_dims", ops["input_dims"]),
                    column_arg("input_types", ops["input_types"]),
                    count_arg("sequence", ops["sequence"]),
                ],
            ),
            _table(
                runtime,
                shift,
                "runtime",
                [count_arg("correlation", runtime["correlation"])],
                launches,
            ),
        ]
    )
    frames = (trace.annotations, ops, runtime)
    pid = np.concatenate([column(frame, "pid") for frame in frames])
    tid = np.concatenate([column(frame, "tid") for frame in frames])
    return table, _threads(table, pid, tid)


def _threads(table: SliceTable, pid: Ints, tid: Ints) -> tuple[ThreadTrack, ...]:
    """The threads; the one with the most steps, then the most slices, first."""
    if not len(table):
        return ()
    pairs, thread = np.unique(np.stack((pid, tid), axis=1), axis=0, return_inverse=True)
    of = thread.ravel()
    is_step = np.array([text == "step" for text in table.categories])[table.category]
    stepped = np.bincount(of[is_step], minlength=len(pairs))
    order = np.lexsort((-np.bincount(of), -stepped))
    several = len(np.unique(pairs[:, 0])) > 1
    tracks: list[ThreadTrack] = []
    for track_rank, which in enumerate(order.tolist()):
        own_pid, own_tid = (int(value) for value in pairs[which])
        rows = np.flatnonzero(of == which)
        lanes = nested_lanes(table.start[rows], table.end[rows])
        name = "CPU thread" + (f" of process {own_pid}" if several else "")
        plain = 0 < own_tid <= _LARGEST_TID and own_tid not in {track.tid for track in tracks}
        tracks.append(
            ThreadTrack(
                tid=own_tid if plain else _LARGEST_TID - track_rank,
                name=name if plain else f"{name} {own_tid}",
                lanes=tuple(Lane(rows[lane], n) for n, lane in enumerate(lanes)),
            )
        )
    return tuple(tracks)


def _devices(trace: Trace, gpu: SliceTable, bin_ns: int) -> tuple[DeviceTracks, ...]:
    device, stream = column(trace.gpu, "device"), column(trace.gpu, "stream")
    busy = merge_busy(device, gpu.start, gpu.end)
    tracks = []
    for lane, which in enumerate(busy.owner.tolist()):
        periods = busy.span(lane)
        first = int(busy.start[periods][0]) // bin_ns
        last = -(-int(busy.end[periods][-1]) // bin_ns)
        edges = np.arange(first, max(last, first + 1) + 1, dtype=np.int64) * bin_ns
        percent = busy.busy_between(lane, edges).astype(np.float64) * (100 / bin_ns)
        own = np.flatnonzero(device == which)
        names = trace.info.device_names
        is_named = 0 <= which < len(names)
        tracks.append(
            DeviceTracks(
                name=f"GPU {which}",
                model=printable(names[which]) if is_named else "",
                busy=_counter(edges, percent, bin_ns),
                streams=tuple(
                    _stream(int(stream_id), own[stream[own] == stream_id], gpu)
                    for stream_id in np.unique(stream[own])
                ),
            )
        )
    return tuple(tracks)


def _counter(edges: Ints, percent: Floats, bin_ns: int) -> Counter:
    """The busy counter: a value at the begin of each bin that changes it, and 0 behind the last."""
    values = np.append(percent, 0.0)
    changed = np.append(True, values[1:] != values[:-1])
    return Counter(
        name="GPU busy",
        description=f"Share of each {bin_ns} ns in which at least one stream runs, in percent",
        unit="%",
        ts=edges[changed],
        value=values[changed],
    )


def _stream(stream: int, rows: Ints, gpu: SliceTable) -> StreamTrack:
    start, end = gpu.start[rows], gpu.end[rows]
    # An empty slice at the instant where another begins must stand before it.
    rows = rows[np.lexsort((end, start))]
    lanes = split_overlaps(gpu.start[rows], gpu.end[rows])
    return StreamTrack(
        name=f"stream {stream}" if stream >= 0 else "unknown stream",
        lanes=tuple(Lane(rows[lane], n) for n, lane in enumerate(lanes)),
    )
