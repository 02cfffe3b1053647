"""Measures the Perfetto export against Perfetto's own streaming builder writing the same events.

    python benchmarks/perfetto_export.py [--slices 100000] [--repeats 5]
    python benchmarks/perfetto_export.py --at-once 40000 1000000 [--repeats 1]

``--at-once`` exports this many kernels of one stream at one instant, each on its own track, without
the peer.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from graphviz_dash.features.perfetto.trace.chrome import export_chrome
from graphviz_dash.features.perfetto.trace.lanes import compute_event_positions
from graphviz_dash.features.perfetto.trace.perfetto import _Writer, export_perfetto
from graphviz_dash.features.perfetto.trace.scene import Lane, Scene, build_scene
from graphviz_dash.features.perfetto.trace.slices import ArgKind, SliceTable
from graphviz_dash.importers.bundles import import_files
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Experiment
from tests.builders import chain, make_experiment

_NODES = 1_000
_SLICES_A_NODE = 4  # eager: operator, call and kernel; graphed: kernel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--at-once", type=int, nargs="+", metavar="SLICES", default=())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if not options.at_once:
            measure(folder, options.slices, options.repeats)
        for slices in options.at_once:
            measure_at_once(folder / str(slices), slices, options.repeats)


def measure_at_once(folder: Path, slices: int, repeats: int) -> None:
    folder.mkdir()
    experiment = load_experiment(_at_once(folder, slices))
    print(f"{slices:,} slices at one instant, median of {repeats}")
    for name, export in (("a.pftrace", export_perfetto), ("a.json.gz", export_chrome)):
        seconds, cpu = _median(partial(export, experiment, folder / name), repeats)
        size = (folder / name).stat().st_size / 1e6
        print(f"| {name} | {seconds:.3f} s | {cpu:.3f} s | {size:.1f} MB |", flush=True)


def _at_once(folder: Path, slices: int) -> Path:
    """An experiment of an imported trace: kernels of 1.5 µs, all at 10 µs."""
    args = {"device": 0, "stream": 7, "grid": [1, 1, 1], "block": [32, 1, 1]}
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 10.0, "dur": 1.5}
    events = [
        kernel | {"name": f"kernel {n % 7}", "args": args | {"correlation": n + 1}}
        for n in range(slices)
    ]
    trace = folder / "trace.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    import_files([trace], folder / "made")
    return folder / "made"


def measure(folder: Path, slices: int, repeats: int) -> None:
    steps = max(1, slices // (_NODES * _SLICES_A_NODE))
    made = make_experiment(folder / "made", work=chain(_NODES), traced=steps)
    experiment = load_experiment(made)
    tracemalloc.start()
    written = export_perfetto(experiment, folder / "a.pftrace")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    scene = build_scene(experiment)
    if slice_events(ours, scene) != slice_events(peer, scene):
        raise SystemExit("the two did not write the same events")
    print(f"{written.slices:,} slices, {written.flows:,} flows, median of {repeats}")
    rows = [
        ("scene (tables to columns, both formats)", lambda: build_scene(experiment), None),
        ("events by the column encoder", lambda: ours(scene, io.BytesIO()), None),
        ("the same by StreamingTraceProtoBuilder", lambda: peer(scene, io.BytesIO()), None),
        _whole("whole export, .pftrace", export_perfetto, experiment, folder / "a.pftrace"),
        _whole("whole export, .pftrace.gz", export_perfetto, experiment, folder / "a.pftrace.gz"),
        _whole("whole export, Chrome .json", export_chrome, experiment, folder / "a.json"),
        _whole("whole export, Chrome .json.gz", export_chrome, experiment, folder / "a.json.gz"),
    ]
    for label, act, file in rows:
        seconds, cpu = _median(act, repeats)
        size = "" if file is None else f"{file.stat().st_size / 1e6:.1f} MB"
        print(f"| {label} | {seconds:.3f} s | {cpu:.3f} s | {size} |", flush=True)
    print(f"most memory of Python and numpy at once: {peak / (1 << 20):.0f} MiB")
    packed_size = len(gzip.compress((folder / "a.pftrace").read_bytes(), 6))
    print(
        f"the native trace under gzip -6: {packed_size / 1e6:.1f} MB; load {os.getloadavg()[0]:.1f}"
    )


def _whole(
    label: str, export: Callable[[Experiment, Path], object], experiment: Experiment, file: Path
) -> tuple[str, Callable[[], object], Path]:
    return label, lambda: export(experiment, file), file


def _median(act: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median wall-clock and CPU seconds."""
    times = []
    for _ in range(repeats):
        start_time, used = time.perf_counter(), time.process_time()
        act()
        times.append((time.perf_counter() - start_time, time.process_time() - used))
    wall, cpu = zip(*times, strict=True)
    return statistics.median(wall), statistics.median(cpu)


def ours(scene: Scene, target: io.BytesIO) -> None:
    """The whole scene by the column encoder."""
    _Writer(scene, target).write()


def peer(scene: Scene, target: io.BytesIO) -> None:
    """The scene's slice events by the peer, with the numbers that our writer gives to names."""
    coder = _Writer(scene, io.BytesIO())
    builder = StreamingTraceProtoBuilder(target)
    uuid = 0
    tables = [(run, run.cpu, run.gpu) for run in scene.runs]
    coded = [
        [
            (
                coder.names(table.names).tolist(),
                coder.categories(table.categories).tolist(),
                coder.arguments(arg.name for arg in table.args).tolist(),
                [coder.texts(arg.texts).tolist() for arg in table.args],
            )
            for table in (cpu, gpu)
        ]
        for _, cpu, gpu in tables
    ]
    for (run, cpu, gpu), (of_cpu, of_gpu) in zip(tables, coded, strict=True):
        uuid += 1
        for thread in run.threads:
            uuid += 1
            for lane in thread.lanes:
                uuid += lane.overflow > 0
                _peer_lane(builder, lane, cpu, of_cpu, uuid)
        for device in run.devices:
            uuid += 2
            for stream in device.streams:
                for lane in stream.lanes:
                    uuid += 1
                    _peer_lane(builder, lane, gpu, of_gpu, uuid)


def _peer_lane(
    builder: StreamingTraceProtoBuilder, lane: Lane, table: SliceTable, coded: tuple, uuid: int
) -> None:
    names, categories, arg_names, arg_texts = coded
    begin, end = compute_event_positions(table.start[lane.rows], table.end[lane.rows])
    order = np.argsort(np.concatenate((begin, end)))
    count = len(lane.rows)
    columns = {name: getattr(table, name).tolist() for name in ("start", "end", "name", "category")}
    flow_first, flow_ids = table.flow_first.tolist(), table.flow_ids.tolist()
    values = [(arg.kind, arg.values.tolist(), arg.present.tolist()) for arg in table.args]
    rows = lane.rows.tolist()
    for event in order.tolist():
        packet = builder.create_packet()
        packet.trusted_packet_sequence_id = 1
        packet.sequence_flags = 2
        track_event = packet.track_event
        track_event.track_uuid = uuid
        row = rows[event % count]
        if event >= count:
            packet.timestamp = columns["end"][row]
            track_event.type = proto.TrackEvent.TYPE_SLICE_END
            builder.write_packet(packet)
            continue
        packet.timestamp = columns["start"][row]
        track_event.type = proto.TrackEvent.TYPE_SLICE_BEGIN
        track_event.name_iid = names[columns["name"][row]]
        track_event.category_iids.append(categories[columns["category"][row]])
        for place, (kind, column, present) in enumerate(values):
            if not present[row]:
                continue
            arg = track_event.debug_annotations.add()
            arg.name_iid = arg_names[place]
            if kind is ArgKind.TEXT:
                arg.string_value_iid = arg_texts[place][column[row]]
            elif kind is ArgKind.NUMBER:
                arg.double_value = column[row]
            else:
                arg.uint_value = column[row]
        track_event.flow_ids.extend(flow_ids[flow_first[row] : flow_first[row + 1]])
        builder.write_packet(packet)


def slice_events(
    write: Callable[[Scene, io.BytesIO], None], scene: Scene
) -> list[proto.TracePacket]:
    target = io.BytesIO()
    write(scene, target)
    trace = proto.Trace.FromString(target.getvalue())
    kinds = (proto.TrackEvent.TYPE_SLICE_BEGIN, proto.TrackEvent.TYPE_SLICE_END)
    return [packet for packet in trace.packet if packet.track_event.type in kinds]


if __name__ == "__main__":
    main()
