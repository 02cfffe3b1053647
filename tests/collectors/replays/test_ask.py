"""The process that checks a workload, with a stand-in that needs neither torch nor a GPU."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collectors.doctor.requests import DoctorRequest
from collectors.replays import ask
from graphviz_dash.model.replay_check import CheckGap, ReplayCheck

CHECK = ReplayCheck(
    subject="workload",
    values=(),
    stops=(),
    memory=(),
    graphs=1,
    gaps=(CheckGap("values", "the capture failed: stand-in"),),
)

WORKER = f"""
import json, pathlib, sys
request = json.loads(pathlib.Path(sys.argv[-1]).read_text())
if sys.stdin.readline():
    pathlib.Path(request["out"], {ask.CHECK_FILE!r}).write_bytes({msgspec.json.encode(CHECK)!r})
"""


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    started: list[subprocess.Popen[str]] = []

    class Popen(subprocess.Popen[str]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    monkeypatch.setattr(ask, "PYTHON", (sys.executable, "-c", WORKER))
    return started


def test_a_prepared_process_checks_on_request(
    tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    with ask.prepare_check(DoctorRequest("a:b", 0, 1, 2, str(tmp_path)), tmp_path) as check:
        checked = check()
    assert checked == ask.CheckedWorkload(CHECK, ())
    assert [process.returncode for process in processes] == [0]


def test_a_process_without_a_request_ends_with_the_block(
    tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    with ask.prepare_check(DoctorRequest("a:b", 0, 1, 2, str(tmp_path)), tmp_path):
        assert processes[0].poll() is None
    assert [process.returncode for process in processes] == [-signal.SIGKILL]
    assert not (tmp_path / ask.CHECK_FILE).exists()
