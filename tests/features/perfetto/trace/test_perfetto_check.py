from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from graphviz_dash.errors import InputError
from graphviz_dash.features.perfetto.trace.perfetto import export_perfetto
from graphviz_dash.features.perfetto.trace.perfetto_check import check_packets, check_trace
from graphviz_dash.ingest.load import load_experiment
from tests.builders import make_experiment
from tests.exports.reading import packets

Packets = list[proto.TracePacket]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check")
    experiment = load_experiment(make_experiment(folder / "toy"))
    return export_perfetto(experiment, folder / "t.pftrace").path


def _first(packets: Packets, wanted: Callable[[proto.TracePacket], bool]) -> int:
    return next(place for place, packet in enumerate(packets) if wanted(packet))


def _begin(packet: proto.TracePacket) -> bool:
    return bool(packet.track_event.type == proto.TrackEvent.TYPE_SLICE_BEGIN)


def _end(packet: proto.TracePacket) -> bool:
    return bool(packet.track_event.type == proto.TrackEvent.TYPE_SLICE_END)


def _without_names(found: Packets) -> None:
    del found[_first(found, lambda p: bool(p.interned_data.event_names))]


def _without_texts(found: Packets) -> None:
    del found[_first(found, lambda p: bool(p.interned_data.debug_annotation_string_values))]


def _names_too_late(found: Packets) -> None:
    found.append(found.pop(_first(found, lambda p: bool(p.interned_data.event_categories))))


def _without_a_track(found: Packets) -> None:
    del found[_first(found, lambda p: p.track_descriptor.name == "stream 7")]


def _without_a_parent(found: Packets) -> None:
    del found[_first(found, lambda p: p.track_descriptor.name.startswith("GPU 0"))]


def _a_track_twice(found: Packets) -> None:
    found.append(found[_first(found, lambda p: p.track_descriptor.name == "stream 7")])


def _an_end_too_much(found: Packets) -> None:
    found.append(found[max(p for p, packet in enumerate(found) if _end(packet))])


def _an_end_too_few(found: Packets) -> None:
    del found[max(p for p, packet in enumerate(found) if _end(packet))]


def _time_goes_back(found: Packets) -> None:
    found[_first(found, _end)].timestamp = 0


def _half_a_flow(found: Packets) -> None:
    del found[_first(found, lambda p: bool(p.track_event.flow_ids))].track_event.flow_ids[:]


def _no_sequence(found: Packets) -> None:
    found[_first(found, _begin)].ClearField("trusted_packet_sequence_id")


def _forgotten(found: Packets) -> None:
    found[_first(found, _begin)].sequence_flags = 1


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_without_names, "name 1 is used before it is defined"),
        (_without_texts, "text 1 is used before it is defined"),
        (_names_too_late, "category 1 is used before it is defined"),
        (_without_a_track, "which is not described"),
        (_without_a_parent, "its parent"),
        (_a_track_twice, "described twice"),
        (_an_end_too_much, "without a begin"),
        (_an_end_too_few, "1 slices never end"),
        (_time_goes_back, "time decreases"),
        (_half_a_flow, "connects 1 slices"),
        (_no_sequence, "belongs to no sequence"),
        (_forgotten, "is used before it is defined"),
    ],
)
def test_each_defect_is_found(trace: Path, spoil: Callable[[Packets], None], told: str) -> None:
    found = packets(trace)
    assert check_packets(found).problems == []
    spoil(found)
    assert told in "; ".join(check_packets(found).problems)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda data: data[:-1], "truncated"),
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: b"{" + data, "instead of a packet"),
        (lambda data: b"\x0a\xff\xff\xff\xff\x7f" + data, "packet of"),
        (lambda data: b"\x0a\xff\xff\xff\xff\xff\xff" + data, "without a length"),
        (lambda data: data + b"\x0a\x02\x08", "truncated"),
        (lambda data: data + b"\x0a\x02\x5a\x7f", "damaged"),
    ],
)
def test_damaged_files_are_reported(
    trace: Path, tmp_path: Path, spoil: Callable[[bytes], bytes], told: str
) -> None:
    broken = tmp_path / "broken.pftrace"
    broken.write_bytes(spoil(trace.read_bytes()))
    with pytest.raises(InputError, match=told):
        check_trace(broken)


def test_a_damaged_or_missing_file_is_an_error(trace: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pftrace.gz"
    broken.write_bytes(trace.read_bytes())
    with pytest.raises(InputError):
        check_trace(broken)
    with pytest.raises(InputError, match="no such file"):
        check_trace(tmp_path / "missing.pftrace")


def test_many_defects_are_counted_not_listed(trace: Path) -> None:
    found = packets(trace)
    _without_names(found)
    checked = check_packets(found)
    assert len(checked.problems) == 20
    assert checked.more_problems > 20
