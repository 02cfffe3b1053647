"""Windows paths with backslashes that nobody escaped, as torch wrote them before 2.3."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto import reader, workers
from graphviz_dash.ingest.kineto.escapes import decode_text, hide_invalid_escapes
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE
from tests.ingest.kineto.raw_events import read_raw_event
from tests.trace_builder import TraceBuilder

PATH = r"C:\torch\cuda\__init__.py(219): synchronize"


def build(slices: int = 40) -> TraceBuilder:
    """A trace of operators, kernels and frames, each frame with an unescaped path."""
    trace = TraceBuilder()
    for number in range(slices):
        at = number * 10_000
        trace.op("aten::mm", at, 5_000)
        launch = trace.runtime("cudaLaunchKernel", at + 1_000, 1_000)
        trace.kernel("k", at + 3_000, 1_000, correlation=launch)
        trace.frame("NAME", at, 6_000)
    trace.events = [event.replace("NAME", PATH) for event in trace.events]
    return trace


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"C:\cuda\torch"', r"C:\cuda\torch"),
        (r'"C:\cuda \"x\" \\ \u00e9"', 'C:\\cuda "x" \\ é'),
        (r'"\user"', r"\user"),
        (r'"a\tb"', "a\tb"),
    ],
)
def test_a_backslash_that_escapes_nothing_is_itself(text: str, value: str) -> None:
    assert decode_text(text) == value
    assert len(hide_invalid_escapes(text)) == len(text)


def test_other_errors_remain() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        decode_text(r'{"a": "\c", "b" 1}')


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("fields_last", [False, True])
def test_all_events_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int, fields_last: bool
) -> None:
    monkeypatch.delenv(PROCESSES_VARIABLE)
    monkeypatch.setattr(workers, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(reader, "ByteStream", functools.partial(ByteStream, chunk_bytes=2_000))
    trace = build()
    trace._fields_last = fields_last
    text = trace.text().replace("/tmp/trace.json", r"C:\qtmp\trace.json")
    file = tmp_path / "trace.json"
    file.write_text(text)
    loaded = read_trace(file, processes=processes)
    assert loaded.info.events == trace.count
    assert loaded.info.problems == ()
    assert loaded.gpu.height == loaded.python.height == 40
    assert set(loaded.python["name"].cast(str)) == {PATH}
    row = 17
    expected = loaded.ops["external_id"][row]
    assert read_raw_event(loaded, "ops", row).fields["args"]["External id"] == expected


def test_damage_behind_such_a_path_is_reported(tmp_path: Path) -> None:
    text = build().text()
    file = tmp_path / "trace.json"
    file.write_text(text[: text.rindex("aten::mm")])
    loaded = read_trace(file)
    assert loaded.ops.height == 39
    assert [problem.code for problem in loaded.info.problems] == ["cut-off"]
