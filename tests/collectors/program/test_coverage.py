from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from tests.collectors.program.recorded import CAPTURE, COLLECT, PATH, ROOT, run_forked

coverage = pytest.importorskip("coverage")

_HELPER = """
def choose(number):
    if number > 2:
        return 1
    return 2
"""
_PROGRAM = f"""
{CAPTURE}
import helper

def test_replays():
    graph = captured()
    for number in range(40):
        graph.replay()
        if number == 100:
            print("never")
    assert helper.choose(3) == 1

if __name__ == "__main__":
    test_replays()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    (folder / "helper.py").write_text(_HELPER)
    (folder / "test_train.py").write_text(_PROGRAM)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        # Files of a checkout count, unlike those of an installation.
        ["coverage", "run", f"--omit={ROOT}/*", "test_train.py"],
        ["coverage", "run", "--source=.", "--branch", "test_train.py"],
        ["coverage", "run", "--source=.", "--timid", "test_train.py"],
        ["pytest", "-q", "-p", "no:cacheprovider", "--cov=.", "--cov-branch", "test_train.py"],
    ],
    ids=["run", "branch", "timid", "pytest"],
)
def test_totals_are_equal(program: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(program)
    if words[0] == "pytest":
        pytest.importorskip("pytest_cov")
    name = f"run-{len(list(program.glob('out/*')))}"
    command = [sys.executable, "-m", *words]
    collect = ["collect", "-o", "out", "--name", name, "--skip", "5", "--"]
    reports = []
    for is_recorded in (False, True):
        (program / ".coverage").unlink(missing_ok=True)
        ended = (
            run_forked(program, COLLECT, *collect, *command)
            if is_recorded
            else _run(program, *command)
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert is_recorded == ("Recorded:" in ended.stderr), ended.stderr
        report = StringIO()
        measured = coverage.Coverage(data_file=".coverage", config_file=False)
        measured.load()
        measured.report(show_missing=True, file=report)
        assert "test_train.py" in report.getvalue()
        reports.append(report.getvalue())
    assert reports[0] == reports[1]


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | PATH,
        capture_output=True,
        text=True,
        check=False,
    )
