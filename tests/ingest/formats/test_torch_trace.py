"""Read logs of TORCH_TRACE by torch 2.11 (H200) and 2.13 (CPU), cut to the relevant records, and
damaged ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.registry import SourceKind, detect_format
from graphviz_dash.ingest.formats.torch_trace import read_torch_trace
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.compilation import Compilation, CompilationFact

LOGS = Path(__file__).parent / "compile_logs"


@pytest.fixture(scope="module")
def log() -> Compilation:
    return read_torch_trace(LOGS / "torch-2.13.log", DEFAULT_LIMITS)


def test_a_log_is_known_by_its_first_line() -> None:
    for name in ("torch-2.11.log", "torch-2.13.log"):
        row = detect_format(LOGS / name)
        assert row is not None
        assert row.kind is SourceKind.TORCH_TRACE


def test_frames_are_functions_and_rests_of_them(log: Compilation) -> None:
    frames = {frame.id: frame for frame in log.frames}
    whole, rest = frames["0/0"], frames["1/0"]
    assert (whole.function, whole.location and whole.location.text, whole.is_continuation) == (
        "f",
        "steps.py:6",
        False,
    )
    assert (rest.function, rest.location and rest.location.text, rest.is_continuation) == (
        "f",
        "steps.py:8",
        True,
    )
    assert [line.text for line in rest.callers] == ["steps.py:15"]
    assert (rest.nodes, rest.guards, rest.inputs) == (3, 9, 1)
    assert (rest.guard_ns, rest.compile_ns) == (78_000, 1_341_135_000)
    assert "# File: steps.py:10 in torch_dynamo_resume_in_f_at_8" in (rest.code or "")


def test_each_break_has_its_line_and_reason(log: Compilation) -> None:
    breaks = {found.frame: found for found in log.breaks}
    assert [(frame, breaks[frame].lines[0].text) for frame in ("0/0", "1/0", "2/0", "3/0")] == [
        ("0/0", "steps.py:8"),
        ("1/0", "steps.py:10"),
        ("2/0", "steps.py:12"),
        ("3/0", "steps.py:13"),
    ]
    assert breaks["0/0"].reason == "Failed to trace builtin operator"
    assert breaks["1/0"].reason == "Data-dependent branching"
    assert breaks["1/0"].hints[-1] == "Use `torch.cond` to express dynamic control flow."
    assert breaks["3/0"].lines[0].code == "return b.sum().item() + 1"
    assert (breaks["2/0"].link or "").endswith("gb0098.html")
    assert not any("/" in line.file for found in log.breaks for line in found.lines)


def test_a_recompile_has_the_guard_and_its_line(log: Compilation) -> None:
    again = {found.frame: found for found in log.recompiles}
    assert again["2/1"].guards == ("k == 1",)
    assert [line.text for line in again["2/1"].lines] == ["steps.py:11"]
    assert again["0/1"].guards == ("tensor 'a' size mismatch at index 0. expected 8, actual 9",)


def test_graphs_are_named_by_their_keys(log: Compilation) -> None:
    directions = [graph.backward for graph in log.graphs if graph.frame == "0/2"]
    assert directions == [False, True]
    assert all(graph.key.startswith("f") and len(graph.key) == 52 for graph in log.graphs)


def test_facts_absent_from_the_log_have_a_reason(log: Compilation) -> None:
    missing = {source.fact for source in log.sources if source.missing_reason}
    assert {CompilationFact.NODES, CompilationFact.PARTITIONS} <= missing
    assert CompilationFact.BREAKS not in missing


def test_after_a_reset_an_id_is_its_newest_frame() -> None:
    log = read_torch_trace(LOGS / "torch-2.11.log", DEFAULT_LIMITS)
    assert [frame.id for frame in log.frames if frame.id == "0/0"] == ["0/0"]
    assert log.breaks[0].reason.startswith("Attempted to use `torch.nn.Parameter()`")


def test_a_log_that_was_cut_is_read_up_to_there(tmp_path: Path) -> None:
    whole = (LOGS / "torch-2.13.log").read_bytes()
    cut = tmp_path / "cut.log"
    cut.write_bytes(whole[: len(whole) // 2])
    assert 0 < len(read_torch_trace(cut, DEFAULT_LIMITS).frames) < 8


@pytest.mark.parametrize("record", ['{"dynamo_start": 3}', '{"artifact": {}}', "{", '{"str": [1]}'])
def test_a_record_of_another_shape_is_passed_over(tmp_path: Path, record: str) -> None:
    file = tmp_path / "odd.log"
    prefix = "V1123 01:44:29.381000 729 torch/_logging/structured.py:28]"
    known = '{"dynamo_start": {"stack": [{"line": 1, "name": "f", "filename": "/a/b.py"}]}'
    known += ', "frame_id": 0, "frame_compile_id": 0, "attempt": 0}'
    file.write_text(f"{prefix} {record}\n\tpayload\n{prefix} {known}\n")
    assert [frame.function for frame in read_torch_trace(file, DEFAULT_LIMITS).frames] == ["f"]


def test_no_record_at_all_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.log"
    file.write_text("V1123 01:44:29.381000 729 torch/_logging/structured.py:28] {\nnothing\n")
    with pytest.raises(InputError, match="no record"):
        read_torch_trace(file, DEFAULT_LIMITS)


def test_more_records_than_allowed_are_refused() -> None:
    with pytest.raises(InputError, match="limit events"):
        read_torch_trace(LOGS / "torch-2.13.log", Limits(events=3))
