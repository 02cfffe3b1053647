from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.kineto.table_columns import FLOAT_EXACT_US, MAX_TIME_NS
from tests.builders import TraceBuilder

EPOCH_NS = 1_683_564_901_548_726_123
"""Unix time as in traces without baseTimeNanoseconds: beyond the precision of a float."""


@pytest.mark.parametrize("offset", [0, 1, 999, 4_377_359_067_820_009, EPOCH_NS, -5_000_001])
def test_nanoseconds_survive_any_offset(tmp_path: Path, offset: int) -> None:
    trace = TraceBuilder(base_ns=None, offset_ns=offset)
    starts = [0, 1, 7, 1_003, 999_999, 1_000_001, 123_456_789]
    for start in starts:
        trace.op("op", start, start % 1_000 + 1)
    loaded = read_trace(trace.write(tmp_path / "t.json"))
    assert loaded.ops["ts"].to_list() == starts
    assert loaded.ops["dur"].to_list() == [start % 1_000 + 1 for start in starts]
    assert loaded.info.origin_ns == offset


def test_integer_microseconds_of_epoch_size(tmp_path: Path) -> None:
    trace = TraceBuilder(base_ns=None, offset_ns=EPOCH_NS // 1000 * 1000, whole_microseconds=True)
    trace.kernel("a", 0, 3_000, correlation=1)
    trace.kernel("b", 17_000, 2_000, correlation=2)
    loaded = read_trace(trace.write(tmp_path / "t.json"))
    assert loaded.gpu["ts"].to_list() == [0, 17_000]
    assert loaded.gpu["dur"].to_list() == [3_000, 2_000]
    assert loaded.info.origin_ns == EPOCH_NS // 1000 * 1000
    assert [problem.code for problem in loaded.info.problems] == ["whole-microseconds"]


def test_decimals_that_happen_to_be_whole_are_no_defect(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("a", -9, 3_000, correlation=1)
    loaded = read_trace(trace.write(tmp_path / "t.json"))
    assert loaded.info.problems == ()


def test_integers_and_decimals_in_one_trace(tmp_path: Path) -> None:
    trace = TraceBuilder(base_ns=None, offset_ns=EPOCH_NS)
    trace.op("decimal", 0, 1)
    whole = EPOCH_NS // 1000 + 5
    trace.raw(f'{{"ph": "X", "cat": "cpu_op", "name": "whole", "ts": {whole}, "dur": 2}}')
    loaded = read_trace(trace.write(tmp_path / "t.json"))
    assert loaded.ops["ts"].to_list() == [0, whole * 1000 - EPOCH_NS]


def test_late_switch_to_exact_decimals_reads_all_events_once(tmp_path: Path) -> None:
    # The first chunk has small times; decimals of epoch size come megabytes later.
    trace = TraceBuilder(base_ns=None, offset_ns=0, flows=False)
    for index in range(12_000):
        trace.op("aten::add" + "x" * 200, index * 10, 3)
    trace.op("late", EPOCH_NS, 1)
    loaded = read_trace(trace.write(tmp_path / "t.json"))
    assert loaded.info.events == 12_001
    assert loaded.ops["ts"][-1] == EPOCH_NS


def test_no_nanosecond_is_lost_after_51_days(tmp_path: Path) -> None:
    # A float of microseconds is half a nanosecond off there; a second rounding would be too much.
    offset = int(FLOAT_EXACT_US) // 2 * 1000 + 5_219_155_221_207
    starts = [index * 1_237 for index in range(3_000)]
    trace = TraceBuilder(base_ns=0, offset_ns=offset, flows=False)
    for start in starts:
        trace.op("op", start, 1_001)
    loaded = read_trace(trace.write(tmp_path / "t.json"))
    assert loaded.info.origin_ns == offset
    assert loaded.ops["ts"].to_list() == starts


@settings(max_examples=25, deadline=None)
@given(
    offset=st.one_of(
        st.integers(0, int(FLOAT_EXACT_US) * 1000 - 2),
        # The last half: here a time as a float is half a nanosecond off already.
        st.integers(int(FLOAT_EXACT_US) * 500, int(FLOAT_EXACT_US) * 600),
        st.integers(int(FLOAT_EXACT_US) * 1000 - 5_000, int(FLOAT_EXACT_US) * 1000 + 5_000),
        st.integers(0, MAX_TIME_NS - 10**12),
    ),
    slices=st.lists(
        st.tuples(st.integers(0, 10**11), st.integers(0, 10**11)), min_size=1, max_size=8
    ),
)
def test_any_time_is_read_as_written(offset: int, slices: list[tuple[int, int]]) -> None:
    trace = TraceBuilder(base_ns=0, offset_ns=offset)
    for start, duration in slices:
        trace.op("op", start, duration)
    with TemporaryDirectory() as folder:
        loaded = read_trace(trace.write(Path(folder) / "t.json"))
    first = min(start for start, _ in slices)
    expected = sorted(((start - first, duration) for start, duration in slices), key=_nesting)
    assert loaded.ops.select("ts", "dur").rows() == expected
    assert loaded.info.origin_ns == offset + first
    assert loaded.info.end_ns == max(start + duration for start, duration in slices) - first


def _nesting(row: tuple[int, int]) -> tuple[int, int]:
    return row[0], -row[1]
