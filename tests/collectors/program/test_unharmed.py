from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import pytest

from collectors.program.bundle import has_events
from collectors.program.files import PROBLEMS_FILE, ProcessFolder, Settings
from collectors.program.launcher import build_environment
from collectors.program.session import HOOK
from tests.collectors.program.programs import CASES
from tests.collectors.program.programs.cases import FAKE, Case

ROOT = Path(__file__).parents[3]
SETTINGS = Settings(skip=4, window=2)
LIMIT_S = 60
_NUMBER = re.compile(r"\b0x[0-9a-f]+\b|(?<=pid=)\d+")


@dataclass(frozen=True)
class Outcome:
    """The visible result of a program, without the path of its folder."""

    returncode: int
    stdout: str
    stderr: str


@cache
def possible(command: str) -> bool:
    return subprocess.run(command, shell=True, capture_output=True, check=False).returncode == 0


def start(case: Case, folder: Path, *, recorded: bool) -> subprocess.Popen[str]:
    """Start the program in a separate folder and process group."""
    folder.mkdir()
    for name, text in {**case.files, "train.py": case.program}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    environment = dict(os.environ)
    if recorded:
        (folder / "scratch" / "processes").mkdir(parents=True)
        text = msgspec.json.encode(SETTINGS).decode()
        environment = build_environment(HOOK, text, folder / "scratch")
    hooks = environment["PYTHONPATH"].partition(os.pathsep)[0] if recorded else ""
    path = f"{FAKE}{os.pathsep}{ROOT}"
    own = {
        name: value.format(folder=folder, path=path)
        for name, value in ({"PYTHONPATH": path} | case.environment).items()
    }
    own["PYTHONPATH"] = os.pathsep.join(filter(None, (hooks, own["PYTHONPATH"])))
    return subprocess.Popen(
        case.command,
        cwd=folder,
        env=environment | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        start_new_session=True,
    )


def outcome(case: Case, process: subprocess.Popen[str], folder: Path) -> Outcome:
    try:
        out, err = process.communicate(case.stdin, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        pytest.fail("the program hung")
    out, err = (_NUMBER.sub("<number>", text) for text in (out, err))
    return Outcome(
        process.returncode,
        out.replace(str(folder), "<folder>"),
        err.replace(str(folder), "<folder>"),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_program_does_not_notice(case: Case, tmp_path: Path) -> None:
    if case.needs and not possible(case.needs):
        pytest.skip(f"cannot be tried here: {case.needs}")
    plain, watched = tmp_path / "plain", tmp_path / "watched"
    both = start(case, plain, recorded=False), start(case, watched, recorded=True)
    expected, seen = outcome(case, both[0], plain), outcome(case, both[1], watched)
    assert seen == expected
    folders = list(ProcessFolder.list_all(watched / "scratch"))
    assert sum(map(has_events, folders)) == case.runs
    failed = [folder for folder in folders if (folder / PROBLEMS_FILE).exists()]
    assert bool(failed) == case.errors, [(folder / PROBLEMS_FILE).read_text() for folder in failed]
