from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from benchmarks import recorder_window
from benchmarks.recorder_window import TimedRun, compute_phase_ns, compute_phase_times
from tests.collectors.program.recorded import CAPTURE, FAKE

LOOP = """
g = captured()
for _ in range(200):
    g.replay()
"""


def test_time_per_replay_is_the_median_of_blocks() -> None:
    stamps = [100 * number for number in range(41)] + [9_000]
    assert compute_phase_ns(stamps, 0, len(stamps)) == 100
    assert compute_phase_ns(stamps, 0, 10) is None


def test_phases_follow_the_window() -> None:
    slow_after = [10 * number for number in range(100)]
    slow_after += [slow_after[-1] + 30 * number for number in range(1, 101)]
    run = TimedRun(slow_after, None, 1.0, {})
    assert compute_phase_times(run, (60, 100)) == {"before": 10, "in": 10, "after": 30}


def test_each_way_of_running_is_stamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(CAPTURE + LOOP)
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    command = shlex.join([sys.executable, str(tmp_path / "train.py")])
    runs = {
        kind: recorder_window.run_program(command, kind, ("--skip", "30", "--steps", "40"), 300)
        for kind in (recorder_window.BARE, recorder_window.WINDOW)
    }
    bare, default = runs.values()
    assert (len(bare.stamps), bare.window, bare.recording) == (200, None, {})
    assert len(default.stamps) == 200
    # 30 steps and the first replay come before, 3 settle, 40 are marked.
    assert default.window == (31, 74)
    assert default.recording["window_ended_by"] == "steps"
