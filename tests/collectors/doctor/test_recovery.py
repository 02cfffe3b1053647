from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from collectors.doctor import __main__ as command
from collectors.doctor import diagnose
from collectors.doctor.diagnose import Examination
from collectors.doctor.recovery import finish_examinations
from collectors.doctor.requests import REPORT_FILE
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.staging import UNFINISHED_FILE
from tests.analysis.frames import ENVIRONMENT
from tests.doctors import report

KILLED = """
import os, pathlib, signal, sys
from collectors.doctor import __main__ as command

def examine(program, warmup, steps, scratch):
    if sys.argv.pop(1) == "reported":
        text = pathlib.Path(sys.argv[1]).read_bytes()
        (scratch / "7-1-REPORT").write_bytes(text)
        (scratch / "8-1-REPORT").write_bytes(text)
    os.kill(os.getpid(), signal.SIGKILL)

command.require_hook = lambda *_: None
command.examine_program = examine
command.examine.main(sys.argv[3:])
""".replace("REPORT", REPORT_FILE)


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose Python has no torch."""
    monkeypatch.setattr(diagnose, "read_machine_environment", lambda _: ENVIRONMENT)


OPTIONS = ("--warmup", "1", "--steps", "2", "--seed", "0", "--typed", '["graphviz-dash", "doctor"]')


def kill_doctor(folder: Path, kind: str) -> Path:
    """Kill a doctor at the end of its program; return its output folder."""
    (folder / "report.json").write_bytes(msgspec.json.encode(report()))
    output = folder / "out"
    arguments = [f"--output={output}", f"--written={folder / 'written'}", *OPTIONS, "train.py"]
    killed = [sys.executable, "-c", KILLED, kind, str(folder / "report.json"), *arguments]
    assert subprocess.run(killed, check=False).returncode == -signal.SIGKILL
    assert [path.name for path in output.iterdir() if not path.name.startswith(".")] == []
    return output


def test_the_next_doctor_writes_what_a_killed_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = kill_doctor(tmp_path, "reported")
    monkeypatch.setattr(command, "require_hook", lambda *_: None)
    monkeypatch.setattr(command, "examine_program", lambda *_: Examination((report(),), None))
    written = tmp_path / "written"
    arguments = [f"--output={output}", f"--written={written}", *OPTIONS, "train.py"]
    command.examine.main(arguments, standalone_mode=False)
    names = sorted(path.name for path in output.iterdir())
    assert names == ["doctor", "doctor-killed", "doctor-killed-2"]
    assert written.read_text() == f"{output / 'doctor'}\n"
    assert "Examined, although its command was killed" in capsys.readouterr().err
    run = read_bundle(output / "doctor-killed")
    assert run.doctor == report()
    assert run.manifest.workload.name == "train.py"
    assert run.manifest.command == ("graphviz-dash", "doctor")


def test_an_examination_that_goes_on_is_left_to_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = kill_doctor(tmp_path, "reported")
    lines: list[str] = []
    monkeypatch.setattr("collectors.doctor.recovery.list_running_processes", lambda _: [7])
    finish_examinations(output, lines.append)
    assert [path.name for path in output.iterdir() if not path.name.startswith(".")] == []
    assert "goes on without its command (process 7)" in lines[0]
    monkeypatch.setattr("collectors.doctor.recovery.list_running_processes", lambda _: [])
    finish_examinations(output, lines.append)
    assert (output / "doctor-killed" / "doctor.json").exists()
    finish_examinations(output, lines.append)
    assert len(lines) == 2


def test_reports_that_are_missing_or_damaged_are_kept_and_reported(tmp_path: Path) -> None:
    output = kill_doctor(tmp_path, "silent")
    lines: list[str] = []
    finish_examinations(output, lines.append)
    assert "cannot be written: The program did nothing to examine" in lines[0]
    (marker,) = output.glob(f".*/{UNFINISHED_FILE}")
    marker.write_bytes(b"{")
    finish_examinations(output, lines.append)
    assert "cannot be written" in lines[1]
    assert os.listdir(output) == [marker.parent.name]
