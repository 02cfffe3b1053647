from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from collectors.collection import source_code
from collectors.collection.source_code import read_source_code
from graphviz_dash.model.marks import SOURCE
from graphviz_dash.model.source_code import MAX_CODE_LENGTH, SourceCode

PROGRAM = "import torch\n\n\ndef step(x):\n    return x * 2  # ζ\n"


def write_trace(folder: Path, *names: str, compress: bool = False) -> Path:
    """Write a trace with ranges of these names, newer than all files of the folder."""
    text = json.dumps({"traceEvents": [{"ph": "X", "name": name} for name in names]})
    trace = folder / "trace.json"
    content = text.encode()
    trace.write_bytes(gzip.compress(content) if compress else content)
    later = max(path.stat().st_mtime for path in folder.rglob("*")) + 10
    os.utime(trace, (later, later))
    return trace


def read(folder: Path, *names: str, compress: bool = False) -> SourceCode:
    code = read_source_code(write_trace(folder, *names, compress=compress), [folder])
    assert code is not None
    return code


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "seen_program.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("compress", [False, True])
def test_lines_of_ranges_and_frames_are_read(program: Path, compress: bool) -> None:
    names = (f"{SOURCE}seen_program.py:5", "seen_program.py(4): step", "aten::mul")
    code = read(program, *names, compress=compress)
    assert code.lines == {
        "seen_program.py:4": "def step(x):",
        "seen_program.py:5": "return x * 2  # ζ",
    }
    assert code.missing == {}


def test_frames_of_torch_and_of_the_standard_library_have_no_code(program: Path) -> None:
    names = ("torch/_tensor.py(5): backward", "contextlib.py(3): inner", "<built-in>(1): x")
    assert read_source_code(write_trace(program, *names), [program]) is None


def test_a_name_across_two_chunks_is_found(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (64, 65, 80):
        monkeypatch.setattr(source_code, "_CHUNK", size)
        code = read(program, "aten::mul", f"{SOURCE}seen_program.py:5", "aten::add")
        assert list(code.lines) == ["seen_program.py:5"]


def test_missing_files_and_lines_have_a_reason(program: Path) -> None:
    code = read(program, f"{SOURCE}gone.py:3", f"{SOURCE}seen_program.py:50")
    assert code.lines == {}
    assert code.missing == {
        "gone.py": "the file was not found",
        "seen_program.py": "the file has only 5 lines",
    }


def test_a_file_that_changed_after_the_capture_has_no_code(program: Path) -> None:
    trace = write_trace(program, f"{SOURCE}seen_program.py:5")
    after = trace.stat().st_mtime + 1
    os.utime(program / "seen_program.py", (after, after))
    code = read_source_code(trace, [program])
    assert code is not None
    assert code.missing == {"seen_program.py": "the file changed after the capture"}


def test_two_files_of_a_name_have_code_only_if_they_are_equal(program: Path) -> None:
    other = program / "other"
    other.mkdir()
    (other / "seen_program.py").write_text(PROGRAM, encoding="utf-8")
    trace = write_trace(program, f"{SOURCE}seen_program.py:4")
    code = read_source_code(trace, [program, other])
    assert code is not None
    assert code.lines
    third = program / "third"
    third.mkdir()
    (third / "seen_program.py").write_text(f"\n{PROGRAM}", encoding="utf-8")
    trace = write_trace(program, f"{SOURCE}seen_program.py:4")
    code = read_source_code(trace, [program, third])
    assert code is not None
    assert code.missing == {"seen_program.py": "several files have this name"}


def test_pipes_folders_and_binary_files_are_not_read(program: Path) -> None:
    os.mkfifo(program / "pipe.py")
    (program / "folder.py").mkdir()
    (program / "binary.py").write_bytes(b"\xff\xfe\x00\x01" * 40)
    names = [f"{SOURCE}{name}.py:1" for name in ("pipe", "folder", "binary")]
    code = read(program, *names)
    assert code.lines == {}
    assert code.missing == {
        "binary.py": "the file is empty or unreadable",
        "folder.py": "not a file",
        "pipe.py": "not a file",
    }


def test_long_lines_are_cut(program: Path) -> None:
    (program / "wide_program.py").write_text(f"x = '{'a' * 900}'\n", encoding="utf-8")
    code = read(program, f"{SOURCE}wide_program.py:1")
    assert len(code.lines["wide_program.py:1"]) == MAX_CODE_LENGTH


def test_too_many_lines_have_a_reason(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_code, "MAX_LINES", 1)
    code = read(program, f"{SOURCE}seen_program.py:4", f"{SOURCE}seen_program.py:5")
    assert list(code.lines) == ["seen_program.py:4"]
    assert code.missing == {"seen_program.py": "the run has more than 1 lines"}


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b damaged", b'{"name": "x'])
def test_a_damaged_trace_has_no_code(tmp_path: Path, content: bytes) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(content)
    assert read_source_code(trace) is None
    assert read_source_code(tmp_path / "missing.json") is None
