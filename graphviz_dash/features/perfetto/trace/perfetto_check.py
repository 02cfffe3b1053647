"""Check a Perfetto trace for consistency with Perfetto's own schema."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from google.protobuf.message import DecodeError
from isal import igzip, isal_zlib
from msgspec import Struct, field
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from graphviz_dash.errors import InputError
from graphviz_dash.features.perfetto.trace.protobuf import WireType, encode_tag

# isal has no types.
_open_gzip: Any = igzip.open
_DECODE_ERRORS: Any = (DecodeError, EOFError, isal_zlib.error)

_EVENT: Final = proto.TrackEvent
_PACKET_TAG: Final = encode_tag(proto.Trace.PACKET_FIELD_NUMBER, WireType.LENGTH)
_MAX_PACKET_BYTES: Final = 64 << 20
_MAX_PROBLEMS: Final = 20
"""Stored problems; a broken writer may cause one per event."""


class TraceCheck(Struct):
    """Contents and problems of a trace."""

    packets: int = 0
    tracks: int = 0
    """Descriptors, without the root's."""
    slices: int = 0
    """Slice begins."""
    flows: int = 0
    """Flow ids that connect slices."""
    counters: int = 0
    """Counter values."""
    problems: list[str] = field(default_factory=list)
    """First problems; empty if there are none."""
    more_problems: int = 0

    def add_problem(self, text: str) -> None:
        """Store the first problems and count the others."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(text)
        else:
            self.more_problems += 1


def check_trace(file: Path) -> TraceCheck:
    """Check that names and tracks are defined before use, that begins and ends pair up and nest in
    time order, and that each flow has both ends.

    Raises:
        InputError: the file is not a Perfetto trace, or is truncated.
    """
    try:
        with _open_trace(file) as source:
            return check_packets(_read_packets(file, source))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(file, reason, "a readable Perfetto trace") from error
    except _DECODE_ERRORS as error:
        raise InputError(file, f"damaged data ({error})", "a Perfetto trace") from error


def check_packets(packets: Iterable[proto.TracePacket]) -> TraceCheck:
    """Check parsed packets."""
    checker = _Checker()
    for packet in packets:
        checker.check_packet(packet)
    return checker.finish()


def _open_trace(file: Path) -> IO[bytes]:
    if file.suffix == ".gz":
        stream: IO[bytes] = _open_gzip(file, "rb")
        return stream
    return file.open("rb")


def _read_packets(file: Path, source: IO[bytes]) -> Iterator[proto.TracePacket]:
    while packet_tag := source.read(len(_PACKET_TAG)):
        if packet_tag != _PACKET_TAG:
            raise InputError(file, f"{packet_tag!r} instead of a packet", "a Perfetto trace")
        length, shift = 0, 0
        while True:
            byte = source.read(1)
            if not byte or shift > 28:
                raise InputError(file, "a packet without a length", "a complete Perfetto trace")
            length |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                break
        if length > _MAX_PACKET_BYTES:
            raise InputError(file, f"a packet of {length:,} bytes", "a Perfetto trace")
        data = source.read(length)
        if len(data) < length:
            raise InputError(file, "a truncated packet", "a complete Perfetto trace")
        yield proto.TracePacket.FromString(data)


class _Checker:
    def __init__(self) -> None:
        self.check = TraceCheck()
        self.tracks: set[int] = {0}
        self.open_slices: defaultdict[int, list[int]] = defaultdict(list)
        self.last_ts: dict[int, int] = {}
        self.flows: Counter[int] = Counter()
        self.is_state_cleared = False
        self.defined_iids: dict[str, set[int]] = {}
        self._clear_state()

    def _clear_state(self) -> None:
        self.defined_iids = {"name": set(), "category": set(), "argument": set(), "text": set()}

    def check_packet(self, packet: proto.TracePacket) -> None:
        self.check.packets += 1
        if packet.sequence_flags & packet.SEQ_INCREMENTAL_STATE_CLEARED:
            self.is_state_cleared = True
            self._clear_state()
        if not packet.trusted_packet_sequence_id:
            self.check.add_problem(f"packet {self.check.packets} belongs to no sequence")
        self._register_interned(packet.interned_data)
        if packet.HasField("track_descriptor"):
            self._check_descriptor(packet.track_descriptor)
        if packet.HasField("track_event"):
            self._check_event(packet.timestamp, packet.track_event)

    def finish(self) -> TraceCheck:
        check = self.check
        for uuid, stack in self.open_slices.items():
            if stack:
                check.add_problem(f"track {uuid}: {len(stack)} slices never end")
        for flow, ends in self.flows.items():
            if ends != 2:
                check.add_problem(f"flow {flow} connects {ends} slices, expected 2")
        check.flows = len(self.flows)
        return check

    def _register_interned(self, data: proto.InternedData) -> None:
        for kind, entries in (
            ("name", data.event_names),
            ("category", data.event_categories),
            ("argument", data.debug_annotation_names),
            ("text", data.debug_annotation_string_values),
        ):
            if entries and not self.is_state_cleared:
                self.check.add_problem("names appear before the sequence's state is cleared")
            self.defined_iids[kind].update(entry.iid for entry in entries)

    def _check_defined(self, kind: str, iid: int) -> None:
        if iid not in self.defined_iids[kind]:
            self.check.add_problem(f"{kind} {iid} is used before it is defined")

    def _check_descriptor(self, track: proto.TrackDescriptor) -> None:
        if track.uuid == 0:
            return
        if track.uuid in self.tracks:
            self.check.add_problem(f"track {track.uuid} is described twice")
        if track.parent_uuid not in self.tracks:
            self.check.add_problem(f"track {track.uuid}: its parent {track.parent_uuid} is unknown")
        self.tracks.add(track.uuid)
        self.check.tracks += 1

    def _check_event(self, ts: int, event: proto.TrackEvent) -> None:
        check, uuid = self.check, event.track_uuid
        if uuid not in self.tracks or not uuid:
            check.add_problem(f"an event on track {uuid}, which is not described")
        if ts < self.last_ts.get(uuid, 0):
            check.add_problem(f"track {uuid}: time decreases from {self.last_ts[uuid]} to {ts}")
        self.last_ts[uuid] = ts
        if event.type == _EVENT.TYPE_SLICE_BEGIN:
            self._check_begin(ts, event)
        elif event.type == _EVENT.TYPE_SLICE_END:
            if not self.open_slices[uuid]:
                check.add_problem(f"track {uuid}: an end at {ts} without a begin")
            else:
                self.open_slices[uuid].pop()
        elif event.type == _EVENT.TYPE_COUNTER:
            check.counters += 1
        else:
            check.add_problem(f"an event of type {event.type}")

    def _check_begin(self, ts: int, event: proto.TrackEvent) -> None:
        self.check.slices += 1
        self.open_slices[event.track_uuid].append(ts)
        self._check_defined("name", event.name_iid)
        for category in event.category_iids:
            self._check_defined("category", category)
        for arg in event.debug_annotations:
            self._check_defined("argument", arg.name_iid)
            if arg.HasField("string_value_iid"):
                self._check_defined("text", arg.string_value_iid)
        self.flows.update(event.flow_ids)
