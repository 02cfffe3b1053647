"""A bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from graphviz_dash.cli import loading
from tests.builders import make_experiment


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def test_a_terminal_sees_how_far_the_reading_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_experiment(tmp_path / "toy")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert len(loading.loaded_experiment(path).runs) == 2
    told = terminal.getvalue()
    assert "Reading toy" in told
    assert "100%" in told


def test_no_terminal_no_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_experiment(tmp_path / "toy")
    assert len(loading.loaded_experiment(path).runs) == 2
    assert capsys.readouterr() == ("", "")
