from __future__ import annotations

import gzip
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.trace import Trace
from tests.builders import replay_trace

EVENT = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2}'


def document(*events: str, **fields: object) -> bytes:
    head = "".join(f'"{key}": {json.dumps(value)}, ' for key, value in fields.items())
    return f'{{{head}"traceEvents": [{", ".join(events)}]}}'.encode()


def event(**changes: str) -> str:
    parsed = {key: json.dumps(value) for key, value in json.loads(EVENT).items()} | changes
    return "{" + ", ".join(f'"{key}": {value}' for key, value in parsed.items()) + "}"


def read_or_refuse(path: Path) -> Trace | str:
    try:
        return read_trace(path)
    except InputError as error:
        return str(error)


def sample() -> bytes:
    return replay_trace(steps=2).text().encode()


DAMAGED: dict[str, tuple[Callable[[], bytes], str]] = {
    "gzip cut in its header": (
        lambda: gzip.compress(sample())[:6],
        "gzip data ends unexpectedly",
    ),
    "JSON cut in the first fields": (lambda: sample()[:80], "ends unexpectedly"),
    "empty file": (lambda: b"", "an empty file"),
    "white space only": (lambda: b" \n\t" * 1000, "an empty file"),
    "gzip of nothing": (lambda: gzip.compress(b""), "an empty file"),
    "binary file": (lambda: bytes(range(256)) * 64, "not a JSON object: it starts with"),
    "Nsight report": (lambda: b"SQLite format 3\0" + bytes(100), "graphviz-dash import FILE"),
    "ELF file": (lambda: b"\x7fELF" + bytes(1000), "not a JSON object"),
    "zip archive": (lambda: b"PK\x03\x04" + bytes(100), "a zip archive"),
    "zstd file": (lambda: b"\x28\xb5\x2f\xfd" + bytes(100), "zstd"),
    "UTF-16 text": (lambda: sample().decode().encode("utf-16"), "UTF-16"),
    "HTML page": (lambda: b"<!doctype html><p>404", "not a JSON object"),
    "JSON that is no trace": (lambda: b'{"a": 1, "b": [2]}', "without traceEvents .*'a', 'b'"),
    "empty object": (lambda: b"{}", "without traceEvents .it is empty"),
    "a number": (lambda: b"42", "not a JSON object"),
    "traceEvents is an object": (lambda: b'{"traceEvents": {"a": 1}}', "not an array"),
    "traceEvents is null": (lambda: b'{"traceEvents": null}', "not an array"),
    "no events": (document, "without any slice"),
    "events without slices": (
        lambda: document('{"ph": "M", "name": "x"}'),
        "without any slice .* .1 event",
    ),
    "ts of 5000 digits": (lambda: document(event(ts="9" * 5000)), "ts|digits"),
    "baseTimeNanoseconds is text": (
        lambda: document(EVENT, baseTimeNanoseconds="now"),
        "baseTimeNanoseconds is 'now'",
    ),
    "baseTimeNanoseconds is absurd": (
        lambda: document(EVENT, baseTimeNanoseconds=1 << 80),
        "baseTimeNanoseconds",
    ),
    "traceEvents twice": (
        lambda: b'{"traceEvents": [' + EVENT.encode() + b'], "traceEvents": []}',
        "duplicate traceEvents",
    ),
    "damaged before the first slice": (
        lambda: document('{"ph": "M", "name": "x"}', "{ph: X}", EVENT),
        "not JSON at byte",
    ),
    "an unescaped quote": (lambda: document(event(name='"say "hi""')), "not JSON at byte"),
    "deep nesting in an argument": (
        lambda: document(event(args='{"x": ' + "[" * 100_000 + "]" * 100_000 + "}")),
        "nested too deeply.*limit nesting",
    ),
    "deep nesting in shapes": (
        lambda: document(
            EVENT,
            '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1, "args": {"Input Dims": '
            + "[" * 500
            + "]" * 500
            + "}}",
        ),
        "nested too deeply.*limit nesting",
    ),
    "deep nesting in the fields": (
        lambda: b'{"deviceProperties": ' + b"[" * 100_000,
        "nested more than 64 deep.*limit nesting",
    ),
    "deep nesting behind the events": (
        lambda: document(EVENT)[:-1] + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "nested too deeply.*limit nesting",
    ),
    "deep objects": (lambda: b'{"a":' * 100_000, "nested more than 64 deep"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    content, expected = DAMAGED[name]
    path = tmp_path / "trace.json.gz"
    path.write_bytes(content())
    started = time.process_time()
    with pytest.raises(InputError, match=expected) as caught:
        read_trace(path)
    assert time.process_time() - started < 5
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "; expected " in text
    assert text.isprintable()
    assert len(text) < 700 + len(str(path))


UNUSABLE: dict[str, tuple[str, str]] = {
    "a number": ("1", "not an object"),
    "a string": ('"x"', "not an object"),
    "null": ("null", "not an object"),
    "name is a number": (event(name="5"), "no text as name"),
    "name is an object": (event(name='{"a": 1}'), "no text as name"),
    "category is a list": (event(cat="[1]"), "no text as cat"),
    "ts is a string": (event(ts='"soon"'), "a ts as text"),
    "ts is true": (event(ts="true"), "no ts"),
    "ts is null": (event(ts="null"), "no ts"),
    "ts is absent": ('{"ph": "X", "cat": "kernel", "name": "k", "dur": 1}', "no ts"),
    "ts is NaN": (event(ts="NaN"), "no ts"),
    "ts is Infinity": (event(ts="Infinity"), "a ts out of range"),
    "ts is 1e300": (event(ts="1e300"), "a ts out of range"),
    "ts is 1e999": (event(ts="1e999"), "a ts out of range"),
    "ts is 1e99999999999": (event(ts="1e99999999999"), "a ts out of range"),
    "ts beyond 64 bits": (event(ts="9" * 30), "a ts out of range"),
    "ts of 400 digits": (event(ts="9" * 400), "a ts out of range"),
    "dur is negative": (event(dur="-1.5"), "a negative duration"),
    "dur is a negative integer": (event(dur="-1"), "a negative duration"),
    "dur is absurd": (event(dur="1e17"), "a dur out of range"),
    "correlation beyond 64 bits": (
        event(args='{"correlation": 99999999999999999999999}'),
        "a correlation out of range",
    ),
    "grid of 2^70": (event(args=f'{{"grid": [{1 << 70}, 1, 1]}}'), "a grid out of range"),
    "device beyond 32 bits": (event(args='{"device": 99999999999}'), "a device out of range"),
    "graph id is negative": (event(args='{"graph id": -5}'), "a graph id out of range"),
}


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("whole", [True, False], ids=["whole microseconds", "decimals"])
def test_an_unusable_event_costs_itself_only(tmp_path: Path, name: str, whole: bool) -> None:
    bad, cause = UNUSABLE[name]
    good = [event(ts=f"{10 * n}" if whole else f"{10 * n}.125", name=f'"k{n}"') for n in range(50)]
    path = tmp_path / "trace.json"
    path.write_bytes(document(*good))
    expected = read_trace(path)
    path.write_bytes(document(*good[:20], bad, *good[20:30], bad, *good[30:]))
    trace = read_trace(path)
    assert trace.gpu.equals(expected.gpu)
    assert trace.offsets is not None
    assert trace.offsets.rows["gpu"].to_list() == [*range(20), *range(21, 31), *range(32, 52)]
    problems = {problem.code: problem.text for problem in trace.info.problems}
    said = f"2 events cannot be used: {cause} (2). They are missing from all figures."
    assert problems.pop("event-unusable") == said
    assert problems.keys() == {problem.code for problem in expected.info.problems}
    assert trace.info.skipped == expected.info.skipped | {"unusable": 2}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_trace_of_nothing_usable_says_why(tmp_path: Path, name: str) -> None:
    bad, cause = UNUSABLE[name]
    path = tmp_path / "trace.json"
    path.write_bytes(document(bad))
    with pytest.raises(InputError, match=f"without any slice .*1 event; {re.escape(cause)}"):
        read_trace(path)


def test_only_the_unusable_of_many(tmp_path: Path) -> None:
    """Unusable events in each piece that is decoded together."""
    events = [
        event(ts=str(n), dur="-1" if n % 997 == 0 else "1", name=f'"{"k" * 300}"')
        for n in range(10_000)
    ]
    path = tmp_path / "trace.json"
    path.write_bytes(document(*events))
    trace = read_trace(path)
    assert trace.gpu.height == 10_000 - 11
    (problem,) = (one for one in trace.info.problems if one.code == "event-unusable")
    assert problem.text.startswith("11 events cannot be used: a negative duration (11).")


def test_work_as_asynchronous_events_gets_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    pair = [event(ph=f'"{phase}"', ts="5", name='"k"') for phase in "be"]
    path.write_bytes(document(EVENT, *pair))
    (problem,) = (p for p in read_trace(path).info.problems if p.code == "work-not-as-slices")
    assert problem.text.startswith("2 events of GPU work are not slices")


SMALL = Limits(
    decompressed_bytes=4 << 20,
    events=1_000,
    event_bytes=1 << 20,
    string_length=10_000,
    nesting=16,
)


def zip_bomb() -> bytes:
    line = (EVENT + ",\n").encode() * 20_000
    return gzip.compress(b'{"traceEvents": [' + line * 40 + EVENT.encode() + b"]}", 9)


@pytest.mark.parametrize(
    ("content", "limit"),
    [
        pytest.param(zip_bomb, "events", id="a million events"),
        pytest.param(
            lambda: gzip.compress(b'{"traceEvents": [' + b" " * (64 << 20)),
            "event_bytes|decompressed_bytes",
            id="white space without end",
        ),
        pytest.param(
            lambda: gzip.compress(b'{"a": "' + b"x" * (64 << 20)),
            "event_bytes|decompressed_bytes",
            id="a field without end",
        ),
        pytest.param(
            lambda: document(event(name=json.dumps("x" * 20_000))), "string_length", id="long name"
        ),
        pytest.param(
            lambda: document(event(name=json.dumps("x" * (8 << 20)))),
            "event_bytes|decompressed_bytes",
            id="name of 8 MB",
        ),
        pytest.param(
            lambda: document(
                '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1, "args": '
                '{"Input Dims": [' + "1, " * 8_000 + "1]}}"
            ),
            "string_length",
            id="long shapes",
        ),
        pytest.param(
            lambda: b'{"x": ' + b"[" * 20 + b"]" * 20 + b"}", "nesting", id="nested fields"
        ),
    ],
)
def test_each_limit_is_named(tmp_path: Path, content: Callable[[], bytes], limit: str) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(content())
    with pytest.raises(InputError, match=rf"at most [\d,]+ \(limit ({limit})\)"):
        read_trace(path, SMALL)


def test_a_bomb_is_refused_by_its_size_before_its_events(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(zip_bomb())
    with pytest.raises(InputError, match="limit decompressed_bytes"):
        read_trace(path, Limits(decompressed_bytes=4 << 20))


def test_a_bomb_is_refused_by_its_expansion(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (70 << 20), 9))
    with pytest.raises(InputError, match=r"expands .* times.*limit expansion"):
        read_trace(path, Limits(event_bytes=1 << 30))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda p: None, "no such file", id="missing"),
        pytest.param(lambda p: p.mkdir(), "a folder", id="folder"),
        pytest.param(os.mkfifo, "a pipe or device", id="pipe"),
        pytest.param(lambda p: p.symlink_to("/dev/zero"), "a pipe or device", id="device"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, make: Callable[[Path], object], expected: str
) -> None:
    path = tmp_path / "trace.json"
    make(path)
    with pytest.raises(InputError, match=expected):
        read_trace(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        read_trace(path)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_damage_gives_a_trace_or_an_input_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(_SAMPLE)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "drop", "insert"]))
        if kind == "flip":
            content[place] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del content[max(1, place) :]
        elif kind == "drop":
            del content[place : place + data.draw(st.integers(1, 40))]
        else:
            content[place:place] = data.draw(st.binary(max_size=20))
        if not content:
            break
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(content)
    outcome = read_or_refuse(path)
    assert outcome.isprintable() if isinstance(outcome, str) else outcome.info.events > 0


@settings(max_examples=30, deadline=None)
@given(content=st.binary(max_size=400))
def test_any_bytes_give_an_input_error(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_trace(path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
_ARGS = st.dictionaries(
    st.sampled_from(
        ["correlation", "External id", "grid", "device", "stream", "Input Dims", "bytes"]
    ),
    _JSON,
    max_size=4,
)
_FIELDS = st.fixed_dictionaries(
    {"ph": st.just("X"), "cat": st.sampled_from(["kernel", "cpu_op", "cuda_runtime"])},
    optional=dict.fromkeys(("name", "pid", "tid", "ts", "dur"), _JSON) | {"args": _JSON | _ARGS},
)


@settings(max_examples=60, deadline=None)
@given(events=st.lists(_FIELDS | _JSON, max_size=4))
def test_any_json_in_the_events_gives_a_trace_or_an_input_error(
    events: list[object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "strange.json"
    path.write_text(json.dumps({"traceEvents": events}))
    outcome = read_or_refuse(path)
    if isinstance(outcome, str):
        assert outcome.isprintable()
    else:
        assert outcome.info.events == len(events)


_SAMPLE = sample()
