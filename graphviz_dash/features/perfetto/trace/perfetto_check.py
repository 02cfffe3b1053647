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
from graphviz_dash.features.perfetto.trace.protobuf import Wire, tag

# isal has no types.
_open_gzip: Any = igzip.open
_DAMAGED: Any = (DecodeError, EOFError, isal_zlib.error)

_EVENT: Final = proto.TrackEvent
_PACKET_TAG: Final = tag(proto.Trace.PACKET_FIELD_NUMBER, Wire.LENGTH)
_LONGEST_PACKET: Final = 64 << 20
_MOST_PROBLEMS: Final = 20
"""Maximum number of stored problems; a broken writer may cause one per event."""


class TraceCheck(Struct):
    """Contents and problems of a trace."""

    packets: int = 0
    """Number of packets."""
    tracks: int = 0
    """Number of descriptors, without the root's."""
    slices: int = 0
    """Number of slice begins."""
    flows: int = 0
    """Number of flow ids that connect slices."""
    counters: int = 0
    """Number of counter values."""
    problems: list[str] = field(default_factory=list)
    """First problems; empty if there are none."""
    more_problems: int = 0
    """Number of further problems."""

    def problem(self, text: str) -> None:
        """Store the first problems and count the others."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(text)
        else:
            self.more_problems += 1


def check_trace(file: Path) -> TraceCheck:
    """Check that names and tracks in ``file`` are defined before use, that begins and ends pair up
    and nest in time order, and that each flow has both ends.

    Raises:
        InputError: the file is not a Perfetto trace, or is truncated.
    """
    try:
        with _open(file) as source:
            return check_packets(_packets(file, source))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(file, reason, "a readable Perfetto trace") from error
    except _DAMAGED as error:
        raise InputError(file, f"damaged data ({error})", "a Perfetto trace") from error


def check_packets(packets: Iterable[proto.TracePacket]) -> TraceCheck:
    """Check packets that are already parsed."""
    checker = _Checker()
    for packet in packets:
        checker.take(packet)
    return checker.finish()


def _open(file: Path) -> IO[bytes]:
    if file.suffix == ".gz":
        stream: IO[bytes] = _open_gzip(file, "rb")
        return stream
    return file.open("rb")


def _packets(file: Path, source: IO[bytes]) -> Iterator[proto.TracePacket]:
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
        if length > _LONGEST_PACKET:
            raise InputError(file, f"a packet of {length:,} bytes", "a Perfetto trace")
        data = source.read(length)
        if len(data) < length:
            raise InputError(file, "a truncated packet", "a complete Perfetto trace")
        yield proto.TracePacket.FromString(data)


class _Checker:
    def __init__(self) -> None:
        self.check = TraceCheck()
        self.tracks: set[int] = {0}
        self.open: defaultdict[int, list[int]] = defaultdict(list)
        self.last: dict[int, int] = {}
        self.flows: Counter[int] = Counter()
        self.cleared = False
        self.defined: dict[str, set[int]] = {}
        self._forget()

    def _forget(self) -> None:
        self.defined = {"name": set(), "category": set(), "argument": set(), "text": set()}

    def take(self, packet: proto.TracePacket) -> None:
        self.check.packets += 1
        if packet.sequence_flags & packet.SEQ_INCREMENTAL_STATE_CLEARED:
            self.cleared = True
            self._forget()
        if not packet.trusted_packet_sequence_id:
            self.check.problem(f"packet {self.check.packets} belongs to no sequence")
        self._learn(packet.interned_data)
        if packet.HasField("track_descriptor"):
            self._descriptor(packet.track_descriptor)
        if packet.HasField("track_event"):
            self._event(packet.timestamp, packet.track_event)

    def finish(self) -> TraceCheck:
        check = self.check
        for uuid, stack in self.open.items():
            if stack:
                check.problem(f"track {uuid}: {len(stack)} slices never end")
        for flow, ends in self.flows.items():
            if ends != 2:
                check.problem(f"flow {flow} connects {ends} slices, expected 2")
        check.flows = len(self.flows)
        return check

    def _learn(self, data: proto.InternedData) -> None:
        for kind, entries in (
            ("name", data.event_names),
            ("category", data.event_categories),
            ("argument", data.debug_annotation_names),
            ("text", data.debug_annotation_string_values),
        ):
            if entries and not self.cleared:
                self.check.problem("names appear before the sequence's state is cleared")
            self.defined[kind].update(entry.iid for entry in entries)

    def _use(self, kind: str, iid: int) -> None:
        if iid not in self.defined[kind]:
            self.check.problem(f"{kind} {iid} is used before it is defined")

    def _descriptor(self, track: proto.TrackDescriptor) -> None:
        if track.uuid == 0:
            return
        if track.uuid in self.tracks:
            self.check.problem(f"track {track.uuid} is described twice")
        if track.parent_uuid not in self.tracks:
            self.check.problem(f"track {track.uuid}: its parent {track.parent_uuid} is unknown")
        self.tracks.add(track.uuid)
        self.check.tracks += 1

    def _event(self, ts: int, event: proto.TrackEvent) -> None:
        check, uuid = self.check, event.track_uuid
        if uuid not in self.tracks or not uuid:
            check.problem(f"an event on track {uuid}, which is not described")
        if ts < self.last.get(uuid, 0):
            check.problem(f"track {uuid}: time decreases from {self.last[uuid]} to {ts}")
        self.last[uuid] = ts
        if event.type == _EVENT.TYPE_SLICE_BEGIN:
            self._begin(ts, event)
        elif event.type == _EVENT.TYPE_SLICE_END:
            if not self.open[uuid]:
                check.problem(f"track {uuid}: an end at {ts} without a begin")
            else:
                self.open[uuid].pop()
        elif event.type == _EVENT.TYPE_COUNTER:
            check.counters += 1
        else:
            check.problem(f"an event of type {event.type}")

    def _begin(self, ts: int, event: proto.TrackEvent) -> None:
        self.check.slices += 1
        self.open[event.track_uuid].append(ts)
        self._use("name", event.name_iid)
        for category in event.category_iids:
            self._use("category", category)
        for arg in event.debug_annotations:
            self._use("argument", arg.name_iid)
            if arg.HasField("string_value_iid"):
                self._use("text", arg.string_value_iid)
        self.flows.update(event.flow_ids)
