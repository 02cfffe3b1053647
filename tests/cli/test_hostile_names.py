from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.fixtures import Invoke
from tests.ingest.formats.test_debug_dot import VERBOSE
from tests.trace_builder import TraceBuilder

EVIL = "=cmd|'/c calc'!A0 \x1b]0;owned\x07\x1b[31m<script>alert(1)</script>\u202egnp.exe\r\n"
# All but the line's end; what a terminal obeys, and what turns text around.
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def run(invoke: Invoke, tmp_path: Path) -> Path:
    trace = TraceBuilder(device_names=(EVIL,))
    for step in range(3):
        at = step * 100_000
        trace.annotation(f"ProfilerStep#{step}", at, 90_000)
        trace.annotation(EVIL, at, 80_000)
        correlation = trace.runtime("cudaGraphLaunch", at + 1_000, 500)
        trace.op(EVIL, at + 500, 2_000)
        trace.kernel(EVIL, at + 5_000, 500, correlation=correlation, grid=(16, 24, 1))
    trace.write(tmp_path / "evil.json.gz")
    label = EVIL.strip().replace("<", r"\<").replace(">", r"\>").replace("|", r"\|")
    text = VERBOSE.replace("_Z4fillPf", label).replace('"', '"')
    (tmp_path / "evil.dot").write_text(text)
    files = (str(tmp_path / "evil.json.gz"), str(tmp_path / "evil.dot"))
    result = invoke("import", *files, "-o", str(tmp_path / "out"))
    assert result.code == 0, result.err
    assert CONTROL.search(result.out + result.err) is None
    return tmp_path / "out" / "evil"


@pytest.mark.parametrize("command", ["show", "compare", "ls", "validate", "fleet"])
def test_on_the_terminal(invoke: Invoke, run: Path, command: str) -> None:
    place = run if command in ("show", "validate") else run.parent
    result = invoke(command, str(place), *(("--workers", "1") if command == "fleet" else ()))
    assert result.code == 0
    assert CONTROL.search(result.out) is None
    assert CONTROL.search(result.err) is None


@pytest.mark.parametrize("command", ["show", "compare", "fleet"])
def test_as_json(invoke: Invoke, run: Path, command: str) -> None:
    place = run if command == "show" else run.parent
    more = ("--workers", "1") if command == "fleet" else ()
    assert CONTROL.search(invoke(command, str(place), "--json", *more).out) is None


def test_as_csv(invoke: Invoke, run: Path, tmp_path: Path) -> None:
    for what, place in (("kernels", run.parent), ("nodes", run)):
        file = tmp_path / f"{what}.csv"
        result = invoke("export", what, str(place), "-o", str(file))
        assert result.code == 0, result.err
        text = file.read_text(encoding="utf-8")
        assert "'=cmd" in text
        assert re.search(r'(^|,)"?=', text, re.MULTILINE) is None


def test_as_html(invoke: Invoke, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert invoke("export", "html", str(run.parent), "-o", str(file)).code == 0
    assert "<script>alert" not in file.read_text(encoding="utf-8")


def test_as_dot(invoke: Invoke, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "graph.dot"
    assert invoke("export", "dot", str(run), "-o", str(file)).code == 0
    text = file.read_text(encoding="utf-8")
    assert CONTROL.search(text) is None
    # Each quote that is not escaped opens or closes a string; none is left open on a line.
    assert all(len(re.findall(r'(?<!\\)"', line)) % 2 == 0 for line in text.splitlines())
