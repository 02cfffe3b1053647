from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path

import pytest

from benchmarks.recorder_window import (
    BARE,
    KINDS,
    NO_WINDOW,
    WINDOW,
    Block,
    Difference,
    Plan,
    TimedRun,
    compare_runs,
    find_phases,
    print_comparison,
    time_program,
)
from tests.collectors.program.recorded import CAPTURE, FAKE

LOOP = """
g = captured()
for _ in range(200):
    g.replay()
"""


def make_run(kind: str, times_ns: list[int], profiled_blocks: tuple[int, ...] = ()) -> TimedRun:
    blocks = [Block(ns, ns // 2, number in profiled_blocks) for number, ns in enumerate(times_ns)]
    return TimedRun(kind, blocks)


def test_blocks_are_compared_with_the_same_blocks_of_bare_runs() -> None:
    # The machine slows down by half during the run; the recorder costs 10%.
    bare = [1_000 + 50 * number for number in range(11)]
    slower = [round(1.1 * ns) for ns in bare]
    runs = [make_run(BARE, bare), make_run(BARE, bare)]
    runs += [make_run(WINDOW, slower), make_run(WINDOW, slower)]
    difference = compare_runs(runs, WINDOW, range(11), lambda block: block.wall_ns)
    assert difference is not None
    assert difference.value == pytest.approx(0.1, abs=0.001)
    assert difference.margin == pytest.approx(0, abs=0.001)
    assert difference.verdict == "missed"


def test_a_program_with_different_processes_is_not_resolved() -> None:
    runs = [make_run(BARE, [ns] * 5) for ns in (1_000, 1_100)]
    runs += [make_run(NO_WINDOW, [ns] * 5) for ns in (1_005, 1_095)]
    difference = compare_runs(runs, NO_WINDOW, range(5), lambda block: block.wall_ns)
    assert difference is not None
    assert abs(difference.value) < 0.01
    assert difference.verdict == "not resolved"


def test_single_processes_have_no_interval() -> None:
    runs = [make_run(BARE, [100] * 3), make_run(WINDOW, [100] * 3)]
    assert compare_runs(runs, WINDOW, range(3), lambda block: block.wall_ns) == (0, math.inf)
    assert compare_runs(runs, WINDOW, range(3, 5), lambda block: block.wall_ns) is None


@pytest.mark.parametrize(
    ("value", "margin", "verdict"),
    [(0.01, 0.005, "met"), (0.01, 0.02, "not resolved"), (0.05, 0.01, "missed")],
)
def test_verdict_needs_the_interval(value: float, margin: float, verdict: str) -> None:
    assert Difference(value, margin).verdict == verdict


def test_profiled_blocks_separate_the_phases() -> None:
    runs = [make_run(BARE, [1] * 12), make_run(WINDOW, [1] * 12, (5,)), make_run(WINDOW, [1], ())]
    runs.append(make_run(WINDOW, [1] * 12, (4, 5)))
    phases = find_phases(runs)
    assert phases == {"before": range(1, 4), "in": range(4, 6), "after": range(7, 12)}
    assert find_phases(runs[:1])["before"] == range(1, 12)


def test_processes_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(CAPTURE + LOOP)
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    command = shlex.join([sys.executable, str(tmp_path / "train.py")])
    plan = Plan(2, 10, 2, 8, 120, ("--skip", "80", "--window-replays", "1"))
    runs = time_program(command, plan)
    assert [run.kind for run in runs] == list(KINDS * 2)
    # 190 replays after the free ones; a turn has 10.
    assert [len(run.blocks) for run in runs] == [19] * 6
    assert all(block.wall_ns > 0 for run in runs for block in run.blocks)
    rows = [[block.has_profiler for block in run.blocks] for run in runs]
    assert [any(row) for row in rows] == [False, False, True] * 2
    # 80 steps and the first replay come before the window: replays 82 to 94.
    assert [number for number, value in enumerate(rows[2]) if value] == [7, 8]
    assert runs[2].recording["window_ended_by"] == "steps"
    differences = print_comparison(command, runs, plan.block)
    assert set(differences) == {
        (kind, phase) for kind in (NO_WINDOW, WINDOW) for phase in ("before", "in", "after")
    }
    assert "bare [19, 19]" in capsys.readouterr().out


def test_a_program_that_fails_has_no_blocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import missing_package")
    command = shlex.join([sys.executable, str(tmp_path / "train.py")])
    runs = time_program(command, Plan(1, 1, 1, 5, 60, ()))
    assert [run.blocks for run in runs] == [[], [], []]
    assert print_comparison(command, runs, 5) == {}
    assert "missing_package" in capsys.readouterr().err
