from __future__ import annotations

import gzip
import json
import zlib
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.trace import Trace
from tests.builders import TraceBuilder, make_run, replay_trace

ROOT: Final = Path(__file__).parents[3]
SAMPLE: Final = ROOT / "sample_traces/mlp-train/graph/traces/replay.json.gz"


@cache
def text() -> bytes:
    return gzip.decompress(SAMPLE.read_bytes())


@cache
def ends() -> tuple[list[int], list[dict[str, Any]]]:
    """Return the end of each event of the sample by the standard library, and the events."""
    decoder = json.JSONDecoder()
    document = text().decode("latin-1")
    place = document.index("[", document.index('"traceEvents"')) + 1
    found, events = [], []
    while document[place:].lstrip()[0] != "]":
        place = document.index("{", place)
        event, place = decoder.raw_decode(document, place)
        found.append(place)
        events.append(event)
    return found, events


def _first_slice() -> int:
    kept = (
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "cuda_runtime",
        "cuda_driver",
        "cpu_op",
        "user_annotation",
    )
    return next(place for place, event in enumerate(ends()[1]) if event.get("cat") in kept)


def problem(trace: Trace) -> str:
    (one,) = trace.info.completeness_problems
    assert one in trace.info.problems
    return one.text


def check_prefix(trace: Trace, bytes_left: int) -> None:
    """``trace`` holds exactly the events that are whole in the first ``bytes_left`` bytes."""
    places, events = ends()
    left = events[: bisect_right(places, bytes_left)]
    assert trace.info.events == len(left)
    kernels = [event for event in left if event.get("cat") == "kernel"]
    found = trace.gpu.filter(trace.gpu["kind"].cast(str) == "kernel")
    assert sorted(found["name"].cast(str)) == sorted(event["name"] for event in kernels)
    assert found["dur"].sum() == sum(round(event["dur"] * 1000) for event in kernels)
    assert len(trace.runtime) == sum(
        event.get("cat") in ("cuda_runtime", "cuda_driver") for event in left
    )


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(0, 10**9))
def test_a_plain_trace_cut_anywhere(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.json"
    cut %= len(text().rstrip())
    path.write_bytes(text()[:cut])
    if cut < ends()[0][_first_slice()]:
        with pytest.raises(InputError, match=r"ends unexpectedly|an empty file|not a JSON object"):
            read_trace(path)
        return
    trace = read_trace(path)
    check_prefix(trace, cut)
    assert "ends unexpectedly" in problem(trace)
    assert f"The trace contains the {trace.info.events:,} event" in problem(trace)


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(1, 10**9))
def test_a_compressed_trace_cut_anywhere(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.json.gz"
    whole = SAMPLE.read_bytes()
    cut = 1 + cut % (len(whole) - 1)
    path.write_bytes(whole[:cut])
    left = _left(whole[:cut])
    if len(left) < ends()[0][_first_slice()]:
        with pytest.raises(InputError, match=r"ends unexpectedly|an empty file|not a JSON object"):
            read_trace(path)
        return
    trace = read_trace(path)
    assert "gzip data ends unexpectedly" in problem(trace)
    check_prefix(trace, len(left))
    assert text().startswith(left)


def _left(compressed: bytes) -> bytes:
    """Return the content of truncated gzip data by the standard library."""
    return zlib.decompressobj(31).decompress(compressed)


def test_a_cut_trace_with_and_without_the_fields_behind_its_events(tmp_path: Path) -> None:
    trace = TraceBuilder(fields_last=True)
    trace.op("aten::add", 5_000, 10)
    whole = trace.text()
    path = tmp_path / "trace.json"
    path.write_text(whole.rstrip().removesuffix("}"))
    behind = read_trace(path)
    assert behind.info.cupti_version == 130001
    assert len(behind.info.completeness_problems) == 1
    at = whole.index('"baseTimeNanoseconds"')
    path.write_text(whole[: at + 26])  # within the number, which must not be taken for it
    cut = read_trace(path)
    assert cut.info.origin_ns < behind.info.origin_ns
    assert "The time of day is missing too" in problem(cut)


def sample() -> bytes:
    return replay_trace(steps=2).text().encode()


def wrong_checksum() -> bytes:
    data = bytearray(gzip.compress(sample()))
    data[-6] ^= 0xFF
    return bytes(data)


def zeroed(start: bytes, length: int) -> bytes:
    at = sample().rindex(start)
    return sample()[:at] + bytes(length) + sample()[at + length :]


DAMAGED: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "checksum": (wrong_checksum, "damaged", "incorrect checksum"),
    "second member cut": (
        lambda: gzip.compress(sample()[:-90]) + gzip.compress(sample()[-90:])[:30],
        "cut-off",
        "gzip data ends unexpectedly",
    ),
    "garbage behind gzip": (
        lambda: gzip.compress(sample()) + b"garbage behind the end",
        "damaged",
        "invalid gzip/zlib wrapper",
    ),
    "last brace": (lambda: sample().rstrip()[:-1], "cut-off", "ends unexpectedly"),
    "unquoted word": (
        lambda: sample()[: sample().rindex(b'"ph"')] + b"oops" + bytes(40),
        "damaged",
        "not JSON at byte",
    ),
    "a comma too many": (
        lambda: sample()[: sample().rindex(b"{")] + b"," + sample()[sample().rindex(b"{") :],
        "damaged",
        "not JSON at byte",
    ),
    "text after the end": (lambda: sample() + b" and more", "damaged", "at 'and more'"),
    "two documents": (lambda: sample() * 2, "damaged", "unexpected text"),
    "zeros over the structure": (
        lambda: zeroed(b'"ph"', 60),
        "damaged",
        "not JSON at byte",
    ),
    "zeros within a name": (lambda: zeroed(b"Synchronize", 6), "text-damaged", "control char"),
    "a tail of zeros": (
        lambda: sample()[: sample().rindex(b"{")] + bytes(5_000),
        "damaged",
        "not JSON at byte",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_told_and_what_stands_before_it_is_used(tmp_path: Path, name: str) -> None:
    content, code, found = DAMAGED[name]
    path = tmp_path / "trace.json"
    path.write_bytes(content())
    trace = read_trace(path)
    assert [one.code for one in trace.info.completeness_problems] == [code]
    assert found in problem(trace)
    assert problem(trace).isprintable()
    assert len(problem(trace)) < 600
    assert trace.info.events > 0


def test_a_whole_trace_has_nothing_missing() -> None:
    assert read_trace(SAMPLE).info.completeness_problems == ()


def test_damage_far_into_a_large_file_is_found_at_its_byte(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for index in range(30_000):
        trace.op(f"op {index}", index * 1_000, 500)
    whole = trace.text()
    at = whole.index('"op 25000"')
    path = tmp_path / "trace.json"
    path.write_text(whole[:at] + "oops" + whole[at:])
    loaded = read_trace(path)
    assert f"not JSON at byte {at:,} " in problem(loaded)
    assert "oops" in problem(loaded)
    assert len(loaded.ops) == 25_000


def test_a_trace_that_is_both_of_a_run_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(sample()[:-300])
    trace = read_trace(path)
    run = load_run(make_run(tmp_path / "toy", "graph"))
    both = replace(run, capture_trace=trace, replay_trace=trace)
    assert both.completeness_problems == trace.info.completeness_problems
    assert both.problems == trace.info.problems
    assert len(both.completeness_problems) == 1
    assert run.completeness_problems == ()
