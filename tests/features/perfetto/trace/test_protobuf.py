from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from graphviz_dash.features.perfetto.trace import protobuf
from graphviz_dash.features.perfetto.trace.protobuf import RaggedColumn, WireType

UINT64 = st.integers(0, (1 << 64) - 1)


@given(st.lists(st.tuples(UINT64, st.booleans()), min_size=1, max_size=40))
def test_varints_are_those_of_one_at_a_time(rows: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in rows], dtype=np.uint64)
    present = np.array([there for _, there in rows])
    written = protobuf.join_rows([protobuf.encode_varints(values, present)]).tobytes()
    assert written == b"".join(protobuf.encode_varint(value) for value, there in rows if there)


@given(
    st.lists(
        st.tuples(
            UINT64,
            st.one_of(st.none(), st.floats(allow_nan=False)),
            st.lists(UINT64, max_size=5),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_messages_are_read_back(
    rows: list[tuple[int, float | None, list[int]]],
) -> None:
    every = np.ones(len(rows), dtype=np.bool_)
    has_value = np.array([value is not None for _, value, _ in rows])
    flow_tag = protobuf.encode_tag(proto.TrackEvent.FLOW_IDS_FIELD_NUMBER, WireType.FIXED64)
    tails = [b"".join(flow_tag + f.to_bytes(8, "little") for f in flows) for _, _, flows in rows]
    tail = RaggedColumn(
        np.frombuffer(b"".join(tails), dtype=np.uint8), np.array([len(t) for t in tails])
    )
    number = proto.TrackEvent.DOUBLE_COUNTER_VALUE_FIELD_NUMBER
    event = [
        protobuf.encode_constant(
            protobuf.encode_tag(proto.TrackEvent.TRACK_UUID_FIELD_NUMBER, WireType.VARINT), every
        ),
        protobuf.encode_varints(np.array([uuid for uuid, _, _ in rows], dtype=np.uint64), every),
        protobuf.encode_constant(protobuf.encode_tag(number, WireType.FIXED64), has_value),
        protobuf.encode_doubles(np.array([value or 0.0 for _, value, _ in rows]), has_value),
    ]
    packet = protobuf.encode_message(
        proto.TracePacket.TRACK_EVENT_FIELD_NUMBER, event, every, tail.size
    )
    trace = protobuf.encode_message(proto.Trace.PACKET_FIELD_NUMBER, packet, every, tail.size)
    read = proto.Trace.FromString(protobuf.join_rows(trace, tail).tobytes())
    assert [
        (
            p.track_event.track_uuid,
            p.track_event.double_counter_value
            if p.track_event.HasField("double_counter_value")
            else None,
            list(p.track_event.flow_ids),
        )
        for p in read.packet
    ] == rows


def test_an_absent_message_leaves_no_byte() -> None:
    none = np.zeros(3, dtype=np.bool_)
    parts = protobuf.encode_message(4, [protobuf.encode_constant(b"\x08\x01", none)], none)
    assert len(protobuf.join_rows(parts)) == 0


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, (1 << 63) - 1, (1 << 64) - 1])
def test_the_bounds_of_varints(value: int) -> None:
    one = np.ones(1, dtype=np.bool_)
    written = protobuf.join_rows(
        [protobuf.encode_varints(np.array([value], dtype=np.uint64), one)]
    ).tobytes()
    # Field 1 of TrackDescriptor is a uint64.
    assert proto.TrackDescriptor.FromString(b"\x08" + written).uuid == value
