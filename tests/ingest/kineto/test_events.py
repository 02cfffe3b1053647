from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from graphviz_dash.ingest.kineto.events import ABSENT, NO_ARGS, UNUSABLE_EVENT, EventDecoder

EVENT = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2}


def encoded(*events: Any) -> bytes:
    return json.dumps(events).encode()


def test_a_plain_event() -> None:
    decoder = EventDecoder()
    (event,) = decoder.decode_strictly(encoded(EVENT | {"args": {"correlation": 3, "odd": [1]}}))
    assert (event.cat, event.name, event.tid, event.ts) == ("kernel", "k", 7, 1.5)
    assert (event.args.correlation, event.args.stream) == (3, ABSENT)
    assert not decoder.unusable
    assert not decoder.unreadable


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"name": 5}, "no text as name"),
        ({"cat": [1]}, "no text as cat"),
        ({"ts": "soon"}, "a ts as text"),
        ({"dur": None}, "no dur"),
    ],
)
def test_one_bad_event_of_three(change: dict[str, Any], cause: str) -> None:
    decoder = EventDecoder()
    events = decoder.decode_strictly(encoded(EVENT, EVENT | change, EVENT))
    assert [event.name for event in events] == ["k", UNUSABLE_EVENT.name, "k"]
    assert events[1] is UNUSABLE_EVENT
    assert decoder.unusable == {cause: 1}


@pytest.mark.parametrize("item", [1, "x", None, [], True])
def test_an_item_other_than_an_object_is_unusable(item: object) -> None:
    decoder = EventDecoder()
    first, second = decoder.decode_strictly(encoded(EVENT, item))
    assert (first.name, second) == ("k", UNUSABLE_EVENT)
    assert decoder.unusable == {"not an object": 1}


def test_arguments_of_another_type_count_as_not_recorded() -> None:
    decoder = EventDecoder()
    args = {"correlation": {"a": 1}, "registers per thread": 2.5, "grid": [1, "x", 1]}
    (event,) = decoder.decode_strictly(encoded(EVENT | {"args": args}))
    assert (event.args.correlation, event.args.registers, event.args.grid) == (
        (ABSENT, ABSENT, None)
    )
    assert decoder.unreadable == dict.fromkeys(args, 1)


def test_arguments_that_are_no_object() -> None:
    (event,) = EventDecoder().decode_strictly(encoded(EVENT | {"args": 5}))
    assert event.args == NO_ARGS


def test_times_of_events_that_no_table_keeps_are_not_looked_at() -> None:
    decoder = EventDecoder()
    (event,) = decoder.decode_strictly(encoded({"ph": "M", "name": "process_name", "ts": "x"}))
    assert event.ph == "M"
    assert not decoder.unusable


def test_invalid_json_is_decoded_unchecked_or_not_at_all() -> None:
    decoder = EventDecoder()
    with pytest.raises(msgspec.DecodeError):
        decoder.decode_strictly(b'[{"ph": ')
    assert decoder.decode_unchecked(b'[{"ph": ') is None
    assert decoder.decode_unchecked(b'[{"name": "\xff"}]') is None
    odd = b'[{"ph": "X", "ts": NaN, "dur": 1}, {"ph": "X", "name": "k", "ts": 1, "dur": Infinity}]'
    events = decoder.decode_unchecked(odd)
    assert events is not None
    assert [event.name for event in events] == ["", "k"]


def test_half_a_surrogate_becomes_the_replacement_character() -> None:
    decoder = EventDecoder()
    text = b'[{"ph": "X", "cat": "kernel", "name": "a\\ud800", "ts": 1, "dur": NaN}]'
    (event,) = decoder.decode_leniently(text)
    assert event.name == "a\ufffd"
