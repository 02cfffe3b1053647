from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto import reader
from graphviz_dash.ingest.kineto.json_stream import iter_element_spans
from graphviz_dash.ingest.kineto.reader import PIECES_SCHEMA, read_trace
from graphviz_dash.ingest.limits import Limits

KERNEL = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2.0}


def written(folder: Path, *events: Any, **fields: Any) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps(fields | {"traceEvents": events}))
    return path


def test_times_begin_with_the_first_event_of_a_table(tmp_path: Path) -> None:
    late = KERNEL | {"ts": 7.25}
    path = written(tmp_path, {"ph": "M", "ts": 0}, KERNEL, late, baseTimeNanoseconds=1_000)
    trace = read_trace(path)
    assert trace.gpu["ts"].to_list() == [0, 5_750]
    assert trace.info.origin_ns == 1_000 + 1_500
    assert trace.info.end_ns == 7_750
    assert trace.info.events == 3
    assert trace.info.skipped == {"metadata": 1}


def test_each_piece_leads_to_its_bytes(tmp_path: Path) -> None:
    path = written(tmp_path, *([KERNEL] * 5_000))
    trace = read_trace(path)
    assert trace.offsets is not None
    pieces = trace.offsets.pieces
    assert pieces.schema == PIECES_SCHEMA
    assert len(pieces) > 1
    text = path.read_bytes()
    spans = pieces.select("start", "end").iter_rows()
    counts = [len(list(iter_element_spans(text[start:end]))) for start, end in spans]
    assert sum(counts) == 5_000
    assert pieces["first"].to_list() == [sum(counts[:n]) for n in range(len(counts))]


def test_a_nul_byte_in_place_of_a_space_loses_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, *([KERNEL] * 2_000))
    content = bytearray(path.read_bytes())
    # A page that ends in a space between two values has a NUL byte there.
    ends = [at for at in range(4095, len(content), 4096) if content[at : at + 1] == b" "]
    spaces = ends or [content.index(b" ", len(content) // 2)]
    for at in spaces:
        content[at] = 0
    path.write_bytes(content)
    trace = read_trace(path)
    assert trace.gpu.height == 2_000
    assert not trace.info.skipped


def test_events_are_limited_in_number(tmp_path: Path) -> None:
    path = written(tmp_path, *([KERNEL] * 20))
    assert read_trace(path, Limits(events=20)).gpu.height == 20
    with pytest.raises(InputError, match=r"more than 19 events.*limit events"):
        read_trace(path, Limits(events=19))


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_the_collection_of_garbage_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(reader, "build_frames", failing)
    expected = InputError if error is MemoryError else error
    with pytest.raises(expected):
        read_trace(written(tmp_path, KERNEL))
    assert gc.isenabled()


def test_the_names_of_many_categories_are_counted_together(tmp_path: Path) -> None:
    others = [{"ph": "X", "cat": f"odd{n}", "ts": 1, "dur": 1} for n in range(100)]
    trace = read_trace(written(tmp_path, KERNEL, *others))
    assert len(trace.info.skipped) == 65
    assert trace.info.skipped["other"] == 36
    assert sum(trace.info.skipped.values()) == 100
