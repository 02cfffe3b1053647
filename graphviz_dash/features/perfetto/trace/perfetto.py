"""Export of an experiment as a native Perfetto trace
(perfetto.dev/docs/reference/synthetic-track-event).

Descriptors use Perfetto's classes. :mod:`graphviz_dash.features.perfetto.trace.protobuf` encodes
events in chunks, so memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final, TypeAlias

import numpy as np
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.exports.files import ExportSummary, replace_file
from graphviz_dash.features.perfetto.trace import protobuf
from graphviz_dash.features.perfetto.trace.lanes import compute_lane_event_positions
from graphviz_dash.features.perfetto.trace.protobuf import (
    FieldColumn,
    Mask,
    RaggedColumn,
    WireType,
    encode_constant,
    encode_message,
    encode_tag,
    encode_varint,
)
from graphviz_dash.features.perfetto.trace.scene import (
    Counter,
    DeviceTracks,
    Lane,
    RunScene,
    Scene,
    ThreadTrack,
    build_scene,
)
from graphviz_dash.features.perfetto.trace.slices import Arg, ArgKind, SliceTable
from graphviz_dash.model.run import Experiment
from graphviz_dash.progress import report_progress

_SEQUENCE: Final = 1
_CHUNK_EVENTS: Final = 1 << 14
"""Larger chunks are no faster and use more memory."""

_MAX_INTERNED_PER_PACKET: Final = 1000
"""Bounds the size of a packet."""

_STATE_CLEARED_FLAG: Final = proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
_NEEDS_STATE_FLAG: Final = proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
_FLOW_BYTES: Final = len(encode_tag(proto.TrackEvent.FLOW_IDS_FIELD_NUMBER, WireType.FIXED64)) + 8


def export_perfetto(experiment: Experiment, file: Path) -> ExportSummary:
    """Write a Perfetto trace, gzip-compressed if ``file`` ends in .gz.

    Raises:
        InputError: no run has a trace, or the file cannot be written.
    """
    scene = build_scene(experiment)
    with replace_file(file) as target:
        writer = _Writer(scene, target)
        writer.write()
    return writer.build_summary(file)


class _InternTable:
    """Texts numbered from 1 in order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, texts: Iterable[str]) -> Ints:
        """Return the numbers, shape (texts,)."""
        numbers = self.numbers
        return np.array([numbers.setdefault(t, len(numbers) + 1) for t in texts], dtype=np.int64)


class _Writer:
    def __init__(self, scene: Scene, target: IO[bytes]) -> None:
        self.scene = scene
        self.target = target
        self.names = _InternTable()
        self.categories = _InternTable()
        self.arguments = _InternTable()
        self.texts = _InternTable()
        self.tracks = 0
        self.slices = 0
        self.overflowed = 0
        self.flow_marks = 0
        self.counters = 0
        self.expected_slices = 1

    def write(self) -> None:
        """Write everything; references follow their names and tracks."""
        tables = [
            _InternedTable(table, self) for run in self.scene.runs for table in (run.cpu, run.gpu)
        ]
        self._write_names()
        self._write_facts()
        root = self._create_descriptor(0)
        root.process_ordering = proto.TrackDescriptor.PROCESS_ORDERING_EXPLICIT
        root.thread_ordering = proto.TrackDescriptor.THREAD_ORDERING_EXPLICIT
        self._write_descriptor(root)
        self.expected_slices = max(1, sum(len(coded.table) for coded in tables))
        for run, cpu, gpu in zip(self.scene.runs, tables[::2], tables[1::2], strict=True):
            self._write_run(run, cpu, gpu)

    def build_summary(self, path: Path) -> ExportSummary:
        """Summarize the trace at ``path``."""
        return ExportSummary(
            path=path,
            format="proto",
            bytes=path.stat().st_size,
            runs=tuple(run.name for run in self.scene.runs),
            tracks=self.tracks,
            slices=self.slices,
            overflowed=self.overflowed,
            flows=self.flow_marks // 2,
            counters=self.counters,
            skipped=self.scene.alignment.skipped,
        )

    # -- One-time packets ------------------------------------------------------------------------

    def _create_packet(self) -> proto.TracePacket:
        packet = proto.TracePacket()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _NEEDS_STATE_FLAG
        return packet

    def _write_packet(self, packet: proto.TracePacket) -> None:
        self.target.write(proto.Trace(packet=[packet]).SerializeToString())

    def _write_names(self) -> None:
        first = self._create_packet()
        first.first_packet_on_sequence = True
        first.sequence_flags = _STATE_CLEARED_FLAG | _NEEDS_STATE_FLAG
        self._write_packet(first)
        for field, interned in (
            ("event_categories", self.categories),
            ("debug_annotation_names", self.arguments),
            ("event_names", self.names),
            ("debug_annotation_string_values", self.texts),
        ):
            numbered = list(interned.numbers.items())
            for begin in range(0, len(numbered), _MAX_INTERNED_PER_PACKET):
                packet = self._create_packet()
                entries = getattr(packet.interned_data, field)
                for text, number in numbered[begin : begin + _MAX_INTERNED_PER_PACKET]:
                    if interned is self.texts:
                        entries.add(iid=number, str=text.encode())
                    else:
                        entries.add(iid=number, name=text)
                self._write_packet(packet)

    def _write_facts(self) -> None:
        """Write trace attributes, and the same for older trace processors."""
        packet, older = self._create_packet(), self._create_packet()
        for key, value in self.scene.facts.items():
            name = f"graphviz_dash.{key}"
            packet.trace_attributes.attribute.add(key=name, string_value=value)
            older.chrome_events.metadata.add(name=name, string_value=value)
        self._write_packet(packet)
        self._write_packet(older)

    # -- Tracks ---------------------------------------------------------------------------------

    def _create_descriptor(
        self, uuid: int, parent: int = 0, rank: int = 0
    ) -> proto.TrackDescriptor:
        descriptor = proto.TrackDescriptor(uuid=uuid)
        if parent:
            descriptor.parent_uuid = parent
        if uuid:
            descriptor.sibling_order_rank = rank
            descriptor.child_ordering = proto.TrackDescriptor.EXPLICIT
        return descriptor

    def _write_descriptor(self, descriptor: proto.TrackDescriptor) -> None:
        packet = self._create_packet()
        packet.track_descriptor.CopyFrom(descriptor)
        self._write_packet(packet)

    def _allocate_uuid(self) -> int:
        self.tracks += 1
        return self.tracks

    def _write_run(self, run: RunScene, cpu: _InternedTable, gpu: _InternedTable) -> None:
        process = self._create_descriptor(self._allocate_uuid(), rank=run.pid)
        process.description = run.description
        process.process.pid = run.pid
        process.process.process_name = run.name
        process.process.process_labels.extend(run.labels)
        self._write_descriptor(process)
        for rank, thread in enumerate(run.threads):
            if thread.is_family:
                self._write_family(thread, process.uuid, rank, cpu)
            else:
                self._write_thread(thread, run.pid, rank, cpu)
        for rank, device in enumerate(run.devices, len(run.threads)):
            self._write_device(device, process.uuid, rank, gpu)

    def _write_family(
        self, family: ThreadTrack, parent: int, rank: int, cpu: _InternedTable
    ) -> None:
        track = self._create_descriptor(self._allocate_uuid(), parent, rank)
        track.name = family.name
        self._write_descriptor(track)
        self._write_lanes([(lane, track.uuid) for lane in family.lanes], cpu)

    def _write_thread(self, thread: ThreadTrack, pid: int, rank: int, cpu: _InternedTable) -> None:
        main = self._create_descriptor(self._allocate_uuid(), rank=rank)
        main.thread.pid = pid
        main.thread.tid = thread.tid
        main.thread.thread_name = thread.name
        self._write_descriptor(main)
        tracked: list[_TrackedLane] = []
        for lane in thread.lanes:
            track = main
            if lane.overflow:
                track = self._create_descriptor(self._allocate_uuid(), main.uuid, lane.overflow)
                track.name = f"{thread.name} {thread.tid}: overlapping"
                _set_merge_key(track, f"overlapping {thread.tid}")
                self._write_descriptor(track)
            tracked.append((lane, track.uuid))
        self._write_lanes(tracked, cpu)

    def _write_device(
        self, device: DeviceTracks, parent: int, rank: int, gpu: _InternedTable
    ) -> None:
        group = self._create_descriptor(self._allocate_uuid(), parent, rank)
        group.name = f"{device.name} ({device.model})" if device.model else device.name
        self._write_descriptor(group)
        self._write_counter(device.busy, group.uuid)
        tracked: list[_TrackedLane] = []
        for stream_rank, stream in enumerate(device.streams, 1):
            for lane in stream.lanes:
                track = self._create_descriptor(self._allocate_uuid(), group.uuid, stream_rank)
                track.name = stream.name
                # The lanes of a stream appear as one track, as deep as its overlap.
                _set_merge_key(track, stream.name)
                self._write_descriptor(track)
                tracked.append((lane, track.uuid))
        self._write_lanes(tracked, gpu)

    def _write_counter(self, counter: Counter, parent: int) -> None:
        track = self._create_descriptor(self._allocate_uuid(), parent)
        track.name = counter.name
        track.description = counter.description
        track.counter.unit_name = counter.unit
        self._write_descriptor(track)
        self.counters += len(counter.ts)
        for begin in range(0, len(counter.ts), _CHUNK_EVENTS):
            ts = counter.ts[begin : begin + _CHUNK_EVENTS]
            value = counter.value[begin : begin + _CHUNK_EVENTS]
            all_rows = np.ones(len(ts), dtype=np.bool_)
            event = [
                encode_constant(
                    _encode_field(_EVENT.TYPE_FIELD_NUMBER, _EVENT.TYPE_COUNTER), all_rows
                ),
                encode_constant(
                    _encode_field(_EVENT.TRACK_UUID_FIELD_NUMBER, track.uuid), all_rows
                ),
                encode_constant(
                    encode_tag(_EVENT.DOUBLE_COUNTER_VALUE_FIELD_NUMBER, WireType.FIXED64), all_rows
                ),
                protobuf.encode_doubles(value, all_rows),
            ]
            self.target.write(_encode_packets(ts, event, None).data)

    # -- Slices ---------------------------------------------------------------------------------

    def _write_lanes(self, tracked: list[_TrackedLane], coded: _InternedTable) -> None:
        """Write small lanes together: a million concurrent slices need a million lanes, and one
        call each would cost a millisecond."""
        waiting: list[_TrackedLane] = []
        rows = 0
        for lane, uuid in tracked:
            waiting.append((lane, uuid))
            rows += len(lane.rows)
            if rows >= _CHUNK_EVENTS:
                self._write_lane_batch(waiting, coded)
                waiting, rows = [], 0
        if waiting:
            self._write_lane_batch(waiting, coded)

    def _write_lane_batch(self, tracked: list[_TrackedLane], coded: _InternedTable) -> None:
        table = coded.table
        lanes = [lane.rows for lane, _ in tracked]
        rows = np.concatenate(lanes)
        uuids = np.repeat(np.array([uuid for _, uuid in tracked]), [len(lane) for lane in lanes])
        count = len(rows)
        self.overflowed += sum(len(lane.rows) for lane, _ in tracked if lane.overflow)
        begin, end = compute_lane_event_positions(table.start, table.end, lanes)
        events = np.empty(2 * count, dtype=np.int64)
        events[begin] = np.arange(count)
        events[end] = np.arange(count) + count
        for offset in range(0, len(events), _CHUNK_EVENTS):
            report_progress((self.slices + offset / 2) / self.expected_slices)
            batch = events[offset : offset + _CHUNK_EVENTS]
            begins = batch < count
            position = np.where(begins, batch, batch - count)
            row = rows[position]
            flows = coded.encode_flows(row, begins)
            self.flow_marks += len(flows.data) // _FLOW_BYTES
            ts = np.where(begins, table.start[row], table.end[row])
            event = coded.encode_event(row, begins, uuids[position])
            self.target.write(_encode_packets(ts, event, flows).data)
        self.slices += count


_TrackedLane: TypeAlias = tuple[Lane, int]
"""With the uuid of its track."""

_EVENT: Final = proto.TrackEvent
_DEBUG: Final = proto.DebugAnnotation
_PACKET: Final = proto.TracePacket
_ARG_VALUE: Final = {
    ArgKind.COUNT: encode_tag(_DEBUG.UINT_VALUE_FIELD_NUMBER, WireType.VARINT),
    ArgKind.NUMBER: encode_tag(_DEBUG.DOUBLE_VALUE_FIELD_NUMBER, WireType.FIXED64),
    ArgKind.TEXT: encode_tag(_DEBUG.STRING_VALUE_IID_FIELD_NUMBER, WireType.VARINT),
}


class _InternedTable:
    """Table with interned names, ready to become events."""

    def __init__(self, table: SliceTable, writer: _Writer) -> None:
        self.table = table
        self.name = writer.names(table.names)
        self.category = writer.categories(table.categories)
        self.arg_name = writer.arguments(arg.name for arg in table.args).tolist()
        self.arg_text = [writer.texts(arg.texts) for arg in table.args]

    def encode_event(self, row: Ints, begins: Mask, uuids: Ints) -> list[FieldColumn]:
        """Encode event fields; end events have few."""
        all_rows = np.ones(len(row), dtype=np.bool_)
        table = self.table
        parts = [
            encode_constant(encode_tag(_EVENT.TYPE_FIELD_NUMBER, WireType.VARINT), all_rows),
            protobuf.encode_varints(
                np.where(begins, _EVENT.TYPE_SLICE_BEGIN, _EVENT.TYPE_SLICE_END), all_rows
            ),
            *_encode_track(uuids, all_rows),
            encode_constant(encode_tag(_EVENT.NAME_IID_FIELD_NUMBER, WireType.VARINT), begins),
            protobuf.encode_varints(self.name[table.name[row]], begins),
            encode_constant(encode_tag(_EVENT.CATEGORY_IIDS_FIELD_NUMBER, WireType.VARINT), begins),
            protobuf.encode_varints(self.category[table.category[row]], begins),
        ]
        for arg, name, texts in zip(table.args, self.arg_name, self.arg_text, strict=True):
            present = arg.present[row] & begins
            if present.any():
                parts += self._encode_argument(arg, name, texts, row, present)
        return parts

    def _encode_argument(
        self, arg: Arg, name: int, texts: Ints, row: Ints, present: Mask
    ) -> protobuf.FieldColumns:
        head = _encode_field(_DEBUG.NAME_IID_FIELD_NUMBER, name) + _ARG_VALUE[arg.kind]
        values = arg.values[row]
        if arg.kind is ArgKind.NUMBER:
            value = protobuf.encode_doubles(values.astype(np.float64, copy=False), present)
        elif arg.kind is ArgKind.TEXT:
            value = protobuf.encode_varints(texts[values.astype(np.int64, copy=False)], present)
        else:
            value = protobuf.encode_varints(values.astype(np.uint64, copy=False), present)
        number = _EVENT.DEBUG_ANNOTATIONS_FIELD_NUMBER
        return encode_message(number, [encode_constant(head, present), value], present)

    def encode_flows(self, row: Ints, begins: Mask) -> RaggedColumn:
        """Encode flow ids, the last field of an event."""
        first = self.table.flow_first
        count = np.where(begins, first[row + 1] - first[row], 0)
        ids = self.table.flow_ids[_build_ranges(first[row], count)]
        data = np.empty((len(ids), _FLOW_BYTES), dtype=np.uint8)
        data[:, : _FLOW_BYTES - 8] = np.frombuffer(
            encode_tag(_EVENT.FLOW_IDS_FIELD_NUMBER, WireType.FIXED64), dtype=np.uint8
        )
        data[:, _FLOW_BYTES - 8 :] = ids.astype("<u8").view(np.uint8).reshape(-1, 8)
        return RaggedColumn(data.ravel(), count * _FLOW_BYTES)


def _encode_track(uuids: Ints, all_rows: Mask) -> list[FieldColumn]:
    """Encode the track of each event, usually the same for all."""
    if uuids[0] == uuids[-1]:  # lanes are consecutive
        return [
            encode_constant(_encode_field(_EVENT.TRACK_UUID_FIELD_NUMBER, int(uuids[0])), all_rows)
        ]
    head = encode_constant(encode_tag(_EVENT.TRACK_UUID_FIELD_NUMBER, WireType.VARINT), all_rows)
    return [head, protobuf.encode_varints(uuids, all_rows)]


def _build_ranges(first: Ints, count: Ints) -> Ints:
    """Concatenate ``first[i], first[i] + 1, ...`` of length ``count[i]``."""
    offset = np.cumsum(count) - count
    return np.repeat(first - offset, count) + np.arange(int(count.sum()), dtype=np.int64)


def _encode_field(number: int, value: int) -> bytes:
    return encode_tag(number, WireType.VARINT) + encode_varint(value)


def _set_merge_key(track: proto.TrackDescriptor, key: str) -> None:
    track.sibling_merge_behavior = proto.TrackDescriptor.SIBLING_MERGE_BEHAVIOR_BY_SIBLING_MERGE_KEY
    track.sibling_merge_key = key


_COMMON_PACKET_FIELDS: Final = _encode_field(
    _PACKET.TRUSTED_PACKET_SEQUENCE_ID_FIELD_NUMBER, _SEQUENCE
) + _encode_field(_PACKET.SEQUENCE_FLAGS_FIELD_NUMBER, _NEEDS_STATE_FLAG)


def _encode_packets(
    ts: Ints, event: list[FieldColumn], flows: RaggedColumn | None
) -> protobuf.Bytes:
    """Encode one packet per event; ``flows`` end the event, which ends the packet."""
    all_rows = np.ones(len(ts), dtype=np.bool_)
    more = None if flows is None else flows.size
    fields = [
        encode_constant(encode_tag(_PACKET.TIMESTAMP_FIELD_NUMBER, WireType.VARINT), all_rows),
        protobuf.encode_varints(ts, all_rows),
        encode_constant(_COMMON_PACKET_FIELDS, all_rows),
        *encode_message(_PACKET.TRACK_EVENT_FIELD_NUMBER, event, all_rows, more),
    ]
    return protobuf.join_rows(
        encode_message(proto.Trace.PACKET_FIELD_NUMBER, fields, all_rows, more), flows
    )
