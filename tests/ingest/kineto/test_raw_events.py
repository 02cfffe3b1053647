from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto import reader
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.trace import Trace
from tests.builders import TraceBuilder, replay_trace
from tests.ingest.kineto.raw_events import read_raw_event

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "sample_traces/fork-join/graph/traces/replay.json.gz"
TABLES = ("gpu", "runtime", "ops", "annotations", "python")


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes traces come in many pieces."""

    class Stream(ByteStream):
        def __init__(self, path: Path, limits: Limits, *, replaces_nul: bool) -> None:
            super().__init__(path, limits, 5_000, replaces_nul=replaces_nul)

    monkeypatch.setattr(reader, "ByteStream", Stream)


def check_all(trace: Trace, document: bytes, step: int) -> None:
    events = json.loads(document)["traceEvents"]
    seen = 0
    for table in TABLES:
        frame = getattr(trace, table).with_columns(pl.col("name").cast(pl.String))
        for row in range(0, len(frame), step):
            raw = read_raw_event(trace, table, row)
            expected = frame.row(row, named=True)
            assert raw.fields == events[raw.index]
            assert document[raw.start : raw.end] == raw.text
            assert raw.fields["name"] == expected["name"]
            assert round(raw.fields["dur"] * 1000) == expected["dur"]
            seen += 1
    assert seen > 20


@pytest.mark.parametrize("compressed", [False, True])
def test_each_row_of_a_real_trace_leads_to_its_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    small_pieces(monkeypatch)
    document = gzip.decompress(SAMPLE.read_bytes())
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(document) if compressed else document)
    trace = read_trace(path)
    assert trace.offsets is not None
    assert len(trace.offsets.pieces) > 20
    check_all(trace, document, step=17)


def test_arguments_that_no_column_holds_are_there(tmp_path: Path) -> None:
    document = json.loads(replay_trace(steps=2).text())
    for event in document["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            event["args"]["est. achieved occupancy %"] = 37
            event["args"]["nested"] = {"list": [1, {"a": "}, {"}]}
    path = tmp_path / "trace.json"
    path.write_text("\ufeff" + json.dumps(document, ensure_ascii=False))
    trace = read_trace(path)
    args = read_raw_event(trace, "gpu", 0).fields["args"]
    assert args["est. achieved occupancy %"] == 37
    assert args["nested"] == {"list": [1, {"a": "}, {"}]}


def test_a_row_of_a_cut_trace(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for index in range(50):
        trace.op(f"op {index}", index * 1_000, 500)
    path = tmp_path / "trace.json"
    path.write_text(trace.text()[:-300])
    loaded = read_trace(path)
    last = len(loaded.ops) - 1
    assert read_raw_event(loaded, "ops", last).fields["name"] == f"op {last}"
