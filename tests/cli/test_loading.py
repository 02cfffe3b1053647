from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import pytest

from graphviz_dash.app.cli.main import main
from graphviz_dash.cli import loading, progress_bar
from tests.builders import make_experiment

TRACE = Path(__file__).parents[2] / "sample_traces/mlp-train/eager/traces/replay.json.gz"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "_QUIET_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def test_a_terminal_sees_how_far_the_reading_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_experiment(tmp_path / "toy")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert len(loading.open_experiment(path).runs) == 2
    told = terminal.getvalue()
    assert "Reading toy" in told
    assert "100%" in told


@pytest.mark.parametrize("command", ["import", "predict"])
def test_a_trace_of_its_own_has_the_bar_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    # A copy: other tests may have read the sample's own in this process already.
    trace = shutil.copy(TRACE, tmp_path / "trace.json.gz")
    output = ["-o", str(tmp_path / "out")] if command == "import" else []
    assert main([command, str(trace), *output]) == 0
    assert "Reading trace.json.gz" in terminal.getvalue()


def test_no_terminal_no_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_experiment(tmp_path / "toy")
    assert len(loading.open_experiment(path).runs) == 2
    assert capsys.readouterr() == ("", "")
