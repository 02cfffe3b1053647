"""``bench launch`` without a GPU: what it writes, when it is interrupted, and what it refuses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from collectors.launch import cli
from graphviz_dash.bundle.launch import LAUNCH_FILE, read_launch
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries, Topology
from tests.analysis.frames import ENVIRONMENT


class Run(ModuleType):
    """Stands for collectors.launch.run, which needs cuda-python."""

    LENGTHS = (1, 10)
    CHAIN_LENGTHS = (10,)
    WIDTHS = (1, 2)

    def __init__(self, finished: int | None) -> None:
        super().__init__("collectors.launch.run")
        self.finished = finished
        self.asked: tuple[object, ...] = ()

    def topologies(self, *asked: object) -> tuple[Topology, ...]:
        self.asked = asked
        return (Topology(1, 10, False, None, 10),)

    def measure(
        self, wanted: Sequence[Topology], trials: int, report: Callable[[int], None]
    ) -> object:
        done = trials if self.finished is None else self.finished
        for number in range(done):
            report(number + 1)
        samples = {LaunchMeasure.CAPTURE: tuple(range(1, done + 1))}

        class Measured:
            """As collectors.launch.run gives it."""

            call_ns = (140,)
            clock_ns = (60,)
            series = (LaunchSeries(wanted[0], samples, {}),)

        Measured.trials = done  # type: ignore[attr-defined]  # a class body cannot see ``done``
        return Measured


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Result, Run]]:
    monkeypatch.setattr(cli, "require", lambda *modules: None)
    monkeypatch.setattr(cli, "machine_environment", lambda scratch: ENVIRONMENT)

    def invoke(*arguments: str, finished: int | None = None) -> tuple[Result, Run]:
        run = Run(finished)
        monkeypatch.setitem(sys.modules, "collectors.launch.run", run)
        monkeypatch.setattr("collectors.launch.run", run, raising=False)
        return CliRunner().invoke(cli.bench, ["launch", *arguments]), run

    return invoke


Launch = Callable[..., tuple[Result, Run]]


def test_it_writes_what_was_measured(launch: Launch, tmp_path: Path) -> None:
    result, run = launch("-o", str(tmp_path / "new"), "--trials", "4")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path / 'new'}\n"
    recording = read_launch(tmp_path / "new")
    assert (recording.trials, recording.complete) == (4, True)
    assert recording.series[0].samples[LaunchMeasure.CAPTURE] == (1, 2, 3, 4)
    assert recording.environment == ENVIRONMENT
    assert run.asked == ((1, 10), 4, (10,), (1, 2))


def test_an_interrupt_keeps_the_finished_rounds(launch: Launch, tmp_path: Path) -> None:
    result, _ = launch("-o", str(tmp_path), "--trials", "9", finished=5)
    assert result.exit_code == 130
    assert "interrupted after 5 of 9 trials" in result.stderr
    recording = read_launch(tmp_path)
    assert (recording.trials, recording.complete) == (9, False)
    assert len(recording.series[0].samples[LaunchMeasure.CAPTURE]) == 5


def test_an_interrupt_before_the_first_round_leaves_nothing(launch: Launch, tmp_path: Path) -> None:
    result, _ = launch("-o", str(tmp_path), finished=0)
    assert result.exit_code == 130
    assert list(tmp_path.iterdir()) == []


def test_lists_of_sizes(launch: Launch, tmp_path: Path) -> None:
    arguments = ("--lengths", "5,3,5", "--width", "8", "--chain-lengths", "7", "--widths", "1,9")
    _, run = launch("-o", str(tmp_path), *arguments)
    assert run.asked == ((5, 3), 8, (7,), (1, 9))


@pytest.mark.parametrize("value", ["", "a", "0", "3,-1", "1.5"])
def test_a_list_that_is_none_is_refused(launch: Launch, tmp_path: Path, value: str) -> None:
    result, _ = launch("-o", str(tmp_path), "--lengths", value)
    assert result.exit_code == 2
    assert "--lengths" in result.stderr


def test_nothing_is_written_over(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / LAUNCH_FILE).write_text("mine")
    result, _ = launch("-o", str(tmp_path))
    assert "already there" in str(result.exception)
    assert (tmp_path / LAUNCH_FILE).read_text() == "mine"
