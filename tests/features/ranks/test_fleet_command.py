from __future__ import annotations

import json
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import fsspec
import pytest

from graphviz_dash.importers import tasks
from tests.analysis.predictions import line_trace
from tests.cli.fixtures import Invoke
from tests.faults import locked
from tests.importers.fleets import RANKS, rank
from tests.importers.test_bundles import replay


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    for number in range(RANKS):
        rank(tmp_path / "traces", number, slow_us=80 if number == 5 else 0, extra=number == 2)
    return tmp_path / "traces"


def test_says_what_is_slow_and_what_differs(invoke: Invoke, traces: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    result = invoke("fleet", str(traces), "-o", str(tables), "--workers", "1")
    assert result.code == 0
    told = "8 ranks on NVIDIA H200, 2026-11-21: 8 ranks read, 999 µs per traced step (median)\n"
    assert result.out.startswith(told)
    assert "launch-bound: 2.9% of a step (median)" in result.out
    assert "rank5" in result.out
    assert "gemm (+80.0 µs)" in result.out
    assert "all but rank2" in result.out
    again = invoke("fleet", str(tables))
    assert again.out == result.out


def test_a_single_trace_has_one_share(invoke: Invoke, traces: Path) -> None:
    """Its median, minimum and maximum would be the same."""
    trace = next(iter(sorted(traces.iterdir())))
    lines = invoke("fleet", str(trace), "--workers", "1").out.splitlines()
    (line,) = (line for line in lines if "launch-bound" in line)
    assert re.fullmatch(r"  launch-bound: [\d.]+% of a step", line)


def test_of_traces_without_steps_it_tells_traces(invoke: Invoke, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        line_trace(tmp_path / name, marked=False)
    said = invoke("fleet", str(tmp_path)).out
    assert "per trace (median)" in said
    assert "of a trace (median)" in said
    assert "traced step" not in said


def test_names_of_thousands_of_characters_are_shortened(invoke: Invoke, tmp_path: Path) -> None:
    name = f"void cutlass::Kernel<{'long, ' * 500}short>"
    for number in range(RANKS):
        rank(tmp_path, number, slow_us=80 if number == 5 else 0, name=name, extra=number == 2)
    result = invoke("fleet", str(tmp_path), "--workers", "1")
    assert "void cutlass::Kernel<long, long" in result.out
    assert "long, short> (+80.0" in result.out
    assert max(map(len, result.out.splitlines())) < 160


def test_a_folder_below_that_cannot_be_listed_costs_itself(
    invoke: Invoke, traces: Path, tmp_path: Path
) -> None:
    (traces / "closed").mkdir()
    with locked(traces / "closed"):
        result = invoke("fleet", str(traces), "--workers", "1")
        assert result.out.startswith("8 ranks on ")
        assert f"not read: {traces}/closed: permission denied" in result.err
        result = invoke("import", str(traces), "-o", str(tmp_path / "out"), "--workers", "1")
    assert result.code == 0
    assert f"not imported: {traces}/closed: permission denied" in result.err
    assert len(list((tmp_path / "out").iterdir())) == RANKS


def test_json(invoke: Invoke, traces: Path) -> None:
    (traces / "bad.json").write_text("{]")
    result = invoke("fleet", str(traces), "--workers", "1", "--json")
    document = json.loads(result.out)
    (found,) = document["modes"]
    assert (found["mode"], found["ranks"]) == (None, RANKS)
    assert [one["rank"] for one in found["slow_ranks"]] == [2, 5]
    assert document["failed"][0]["source"].endswith("bad.json")
    assert "not read" not in result.out


def test_modes_are_told_apart(invoke: Invoke) -> None:
    lines = invoke("fleet", "sample_traces/tp-transformer", "--workers", "1").out.splitlines()
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == [
        "eager, 2 ranks on NVIDIA H200",
        "",
        "graph, 2 ranks on NVIDIA H200",
    ]
    assert lines[-1] == "  all ranks replay the same graph"


def test_nothing_there_is_one_line(invoke: Invoke) -> None:
    result = invoke("fleet", "nowhere")
    assert result.code == 2
    assert "no such file" in result.err


def test_nobody_at_the_scheduler(invoke: Invoke, traces: Path) -> None:
    pytest.importorskip("distributed")
    result = invoke("fleet", str(traces), "--scheduler", "teleport://x")
    assert result.code == 1
    assert "No Dask scheduler at teleport://x" in result.err


def test_a_folder_is_imported_run_by_run(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    replay(tmp_path / "files" / "a.json.gz")
    (tmp_path / "files" / "notes.txt").write_text("hello")
    out = tmp_path / "out"
    result = invoke("import", str(tmp_path / "files"), "-o", str(out), "--workers", "1")
    assert result.code == 0
    assert "out/a" in result.out
    assert "not imported" in result.err
    only = invoke("import", str(tmp_path / "files" / "notes.txt"), "-o", str(out))
    assert only.code == 2


def test_workers_are_processes(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "ProcessPoolExecutor", ProcessPoolExecutor)
    system = fsspec.filesystem("memory")
    system.pipe_file("/exp/a.json.gz", replay(tmp_path / "a.json.gz").read_bytes())
    result = invoke("compare", "memory://exp", "--workers", "1")
    # In their memory there is no such file.
    assert "not imported" in result.err
    system.rm("/exp", recursive=True)


def test_compare_at_an_address_and_over_a_folder_of_traces(invoke: Invoke, tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    folder = tmp_path / "traces"
    folder.mkdir()
    replay(folder / "a.json.gz")
    assert (
        "No baseline: under the profiler, " in invoke("compare", str(folder), "--workers", "1").out
    )
    invoke("import", str(folder), "-o", str(tmp_path / "made"), "--workers", "1")
    for file in (tmp_path / "made").rglob("*"):
        if file.is_file():
            within = file.relative_to(tmp_path / "made")
            system.pipe_file(f"/made/{within}", file.read_bytes())
    result = invoke("compare", "memory://made")
    assert result.code == 0
    assert "No baseline: under the profiler, " in result.out
    system.rm("/made", recursive=True)
