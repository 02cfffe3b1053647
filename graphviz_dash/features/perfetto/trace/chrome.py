"""Export of an experiment in the JSON format of chrome://tracing, which many viewers read.

Like the native trace, but every stream and every overflow lane is a thread of the run's process.
Times are decimal microseconds with three digits, exact to the ns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.exports.files import ExportSummary, replace_file
from graphviz_dash.features.perfetto.trace.scene import Counter, Lane, RunScene, Scene, build_scene
from graphviz_dash.features.perfetto.trace.slices import Arg, ArgKind, SliceTable
from graphviz_dash.model.run import Experiment

_CHUNK_ROWS: Final = 1 << 13
_THREADS_PER_RUN: Final = 1000
"""Thread ids start at this multiple of the process id."""

_MAX_EXACT_INT: Final = 1 << 53
"""Larger integers are text: JSON readers store numbers as floats."""


def export_chrome(experiment: Experiment, file: Path) -> ExportSummary:
    """Write Chrome JSON, gzip-compressed if ``file`` ends in .gz.

    Raises:
        InputError: no run has a trace, or the file cannot be written.
    """
    scene = build_scene(experiment)
    with replace_file(file) as target:
        writer = _Writer(scene, target)
        writer.write()
    return ExportSummary(
        path=file,
        format="json",
        bytes=file.stat().st_size,
        runs=tuple(run.name for run in scene.runs),
        tracks=writer.tracks,
        slices=writer.slices,
        overflowed=writer.overflowed,
        flows=writer.flows,
        counters=writer.counters,
        skipped=scene.alignment.skipped,
    )


class _EncodedTexts:
    """JSON texts, encoded once because a table may have as many lanes as rows."""

    def __init__(self, table: SliceTable, *, on_gpu: bool) -> None:
        self.on_gpu = on_gpu
        self.names = [_encode_json(text) for text in table.names]
        self.categories = [_encode_json(text) for text in table.categories]
        self.texts = {arg.name: [_encode_json(text) for text in arg.texts] for arg in table.args}


class _Writer:
    def __init__(self, scene: Scene, target: IO[bytes]) -> None:
        self.scene = scene
        self.target = target
        self.has_events = False
        self.tracks = 0
        self.slices = 0
        self.overflowed = 0
        self.flows = 0
        self.counters = 0

    def write(self) -> None:
        """Write the entire document."""
        head = {"displayTimeUnit": "ns", "otherData": self.scene.facts}
        self.target.write(_encode_json(head)[:-1].encode() + b',"traceEvents":[\n')
        for run in self.scene.runs:
            self._write_run(run)
        self.target.write(b"\n]}\n")

    def _write_events(self, events: list[str]) -> None:
        if events:
            text = ",\n".join(events)
            self.target.write((",\n" if self.has_events else "").encode() + text.encode())
            self.has_events = True

    def _write_run(self, run: RunScene) -> None:
        self.tracks += 1
        self._write_events(
            [
                _encode_metadata(run.pid, 0, "process_name", {"name": run.name}),
                _encode_metadata(run.pid, 0, "process_labels", {"labels": ", ".join(run.labels)}),
                _encode_metadata(run.pid, 0, "process_sort_index", {"sort_index": run.pid}),
            ]
        )
        families = [thread for thread in run.threads if thread.is_family]
        lanes = [
            (thread.name if thread.is_family else f"{thread.name} {thread.tid}", lane, run.cpu)
            for thread in run.threads
            for lane in thread.lanes
        ]
        for device in run.devices:
            name = device.busy.name if len(run.devices) == 1 else f"{device.name} busy"
            self._write_counter(device.busy, name, run.pid)
            lanes += [
                (f"{device.name} {stream.name}", lane, run.gpu)
                for stream in device.streams
                for lane in stream.lanes
            ]
        cpu_words, gpu_words = (
            _EncodedTexts(run.cpu, on_gpu=False),
            _EncodedTexts(run.gpu, on_gpu=True),
        )
        for track, (name, lane, table) in enumerate(lanes):
            # Viewers treat the thread with the number of its process as the main thread.
            is_main = track == len(families) and table is run.cpu
            tid = run.pid if is_main else run.pid * _THREADS_PER_RUN + track
            track_name = f"{name}, overlapping {lane.overflow}" if lane.overflow else name
            self._write_events(
                [
                    _encode_metadata(run.pid, tid, "thread_name", {"name": track_name}),
                    _encode_metadata(run.pid, tid, "thread_sort_index", {"sort_index": track}),
                ]
            )
            words = gpu_words if table is run.gpu else cpu_words
            self._write_lane(lane, table, words, f'"pid":{run.pid},"tid":{tid}')

    def _write_counter(self, counter: Counter, name: str, pid: int) -> None:
        self.tracks += 1
        self.counters += len(counter.ts)
        head = f'{{"ph":"C","name":{_encode_json(name)},"pid":{pid},"tid":0,"ts":'
        self._write_events(
            [
                f'{head}{_format_us(ts)},"args":{{{_encode_json(counter.unit)}:{value!r}}}}}'
                for ts, value in zip(counter.ts.tolist(), counter.value.tolist(), strict=True)
            ]
        )

    def _write_lane(
        self, lane: Lane, table: SliceTable, texts: _EncodedTexts, location: str
    ) -> None:
        self.tracks += 1
        self.slices += len(lane.rows)
        self.overflowed += len(lane.rows) if lane.overflow else 0
        end = "f" if texts.on_gpu else "s"
        binding = ',"bp":"e"' if texts.on_gpu else ""
        for begin in range(0, len(lane.rows), _CHUNK_ROWS):
            row = lane.rows[begin : begin + _CHUNK_ROWS]
            events = []
            for slice_row, name, category, start, stop, args in zip(
                row.tolist(),
                table.name[row].tolist(),
                table.category[row].tolist(),
                table.start[row].tolist(),
                table.end[row].tolist(),
                _encode_arguments(table, texts.texts, row),
                strict=True,
            ):
                ts = _format_us(start)
                events.append(
                    f'{{"ph":"X","cat":{texts.categories[category]},"name":{texts.names[name]},{location},'
                    f'"ts":{ts},"dur":{_format_us(stop - start)},"args":{{{args}}}}}'
                )
                first, last = table.flow_first[slice_row], table.flow_first[slice_row + 1]
                for flow in table.flow_ids[first:last].tolist():
                    events.append(
                        f'{{"ph":"{end}","cat":"launch","name":"launch","id":{flow},'
                        f'{location},"ts":{ts}{binding}}}'
                    )
                    self.flows += texts.on_gpu
            self._write_events(events)


def _encode_arguments(table: SliceTable, texts: dict[str, list[str]], row: Ints) -> Iterator[str]:
    """Build the content of "args"."""
    columns = [_encode_column(arg, texts[arg.name], row) for arg in table.args]
    if not columns:
        return iter([""] * len(row))
    return (",".join(filter(None, parts)) for parts in zip(*columns, strict=True))


def _encode_column(arg: Arg, texts: list[str], row: Ints) -> list[str]:
    """Build ``"name":value``, empty if absent."""
    head = f"{_encode_json(arg.name)}:"
    values = arg.values[row].tolist()
    present = arg.present[row].tolist()
    if arg.kind is ArgKind.TEXT:
        return [head + texts[v] if p else "" for v, p in zip(values, present, strict=True)]
    if arg.kind is ArgKind.NUMBER:
        return [f"{head}{v!r}" if p else "" for v, p in zip(values, present, strict=True)]
    return [
        (f"{head}{v}" if v < _MAX_EXACT_INT else f'{head}"{v}"') if p else ""
        for v, p in zip(values, present, strict=True)
    ]


def _encode_metadata(pid: int, tid: int, name: str, args: dict[str, str | int]) -> str:
    return _encode_json({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args})


def _format_us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _encode_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
