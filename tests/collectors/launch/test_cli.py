from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from collectors.launch import cli, processes
from collectors.launch.requests import LaunchResult, build_topologies
from graphviz_dash.bundle.launch import LAUNCH_FILE, read_launch
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries, Topology
from tests.analysis.frames import ENVIRONMENT

Launch = Callable[..., Result]
CAPTURE, UPLOAD = LaunchMeasure.CAPTURE, LaunchMeasure.UPLOAD_CPU
LINE = Topology(1, 10, False, None, 10)


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Launch:
    monkeypatch.setattr(cli, "require", lambda *modules: None)
    monkeypatch.setattr(cli, "read_machine_environment", lambda scratch: ENVIRONMENT)
    command = (sys.executable, "-m", "tests.collectors.launch_process")
    monkeypatch.setattr(processes, "COMMAND", command)

    # Runners of click 8.1 mix stderr into stdout by default.
    parameters = inspect.signature(CliRunner).parameters
    separate = {"mix_stderr": False} if "mix_stderr" in parameters else {}

    def invoke(*arguments: str) -> Result:
        return CliRunner(**separate).invoke(cli.bench, ["launch", *arguments])

    return invoke


def test_it_writes_what_every_process_measured(launch: Launch, tmp_path: Path) -> None:
    result = launch("-o", str(tmp_path / "new"), "--trials", "4", "--processes", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path / 'new'}\n"
    assert "3 of 3 processes" in result.stderr
    recording = read_launch(tmp_path / "new")
    assert (recording.trials, recording.process_trials, recording.complete) == (12, 4, True)
    assert recording.series[0].samples[CAPTURE] == (1, 2, 3, 4) * 3
    assert len(recording.call_ns) == 3
    assert recording.environment == ENVIRONMENT


def test_an_interrupt_keeps_what_was_measured(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    # Shells start jobs in the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setenv("GRAPHVIZ_DASH_TEST_LAUNCH", "slow")
    monkeypatch.setenv("GRAPHVIZ_DASH_TEST_STARTED", str(started))

    def interrupt() -> None:
        while not started.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        result = launch("-o", str(tmp_path / "new"), "--trials", "4")
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130, result.output
    assert "interrupted; kept samples of 1 of " in result.stderr
    recording = read_launch(tmp_path / "new")
    assert (recording.complete, len(recording.series)) == (False, 1)
    assert recording.series[0].samples[CAPTURE] == (1, 2, 3, 4)


def test_a_process_that_fails_is_reported(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHVIZ_DASH_TEST_LAUNCH", "fail")
    result = launch("-o", str(tmp_path / "new"))
    assert isinstance(result.exception, GraphvizDashError)
    assert "cudaErrorLaunchFailure" in str(result.exception)
    assert not (tmp_path / "new").exists()


def test_samples_stay_in_the_order_of_the_processes() -> None:
    def one(first: int, *, upload: bool) -> LaunchResult:
        samples = {CAPTURE: (first, first + 1)} | ({UPLOAD: (first, first)} if upload else {})
        absent = {} if upload else {UPLOAD: "it waited"}
        return LaunchResult(True, (first,), (), (LaunchSeries(LINE, samples, absent),))

    found = processes.join_results([one(1, upload=True), one(5, upload=False)], True)
    (series,) = found.series
    # A measure that one process lacks would shift the samples of those after it.
    assert series.samples == {CAPTURE: (1, 2, 5, 6)}
    assert series.absent == {UPLOAD: "it waited"}
    assert found.call_ns == (1, 5)


def test_lists_of_sizes(launch: Launch, tmp_path: Path) -> None:
    arguments = ("--lengths", "5,3,5", "--width", "8", "--chain-lengths", "7", "--widths", "1,9")
    result = launch("-o", str(tmp_path / "new"), *arguments)
    assert result.exit_code == 0, result.output
    measured = {one.topology for one in read_launch(tmp_path / "new").series}
    assert measured == set(build_topologies((5, 3), 8, (7,), (1, 9)))
    assert Topology(8, 7, True, None, 0) in measured


@pytest.mark.parametrize("value", ["", "a", "0", "3,-1", "1.5"])
def test_a_list_that_is_none_is_refused(launch: Launch, tmp_path: Path, value: str) -> None:
    result = launch("-o", str(tmp_path), "--lengths", value)
    assert result.exit_code == 2
    assert "--lengths" in result.stderr


def test_nothing_is_written_over(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / LAUNCH_FILE).write_text("mine")
    result = launch("-o", str(tmp_path))
    assert "already holds a recording" in str(result.exception)
    assert (tmp_path / LAUNCH_FILE).read_text() == "mine"
