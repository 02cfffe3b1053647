"""Kill collections, interrupt them or fill the disk: bundles are never incomplete.

Processes are real; measurements are made up.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.staging import remove_abandoned_folders

HERE = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])

COLLECTOR = """
import sys
from pathlib import Path
from collectors.collection import machine
from collectors.collection import cli
from graphviz_dash.app.cli import main as command_line

machine.WORKER = (sys.executable, "-m", "tests.collectors.fake_worker")
cli.require = lambda *modules: None
options = ["--workload=mlp-train", "--iterations=2", "--processes=1", "-o", sys.argv[1]]
sys.exit(command_line.main(["collect", *options]))
"""

LINES = 15
"""Lines of progress of a whole collection: the environment, and two for each of seven passes."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs prctl and /proc")


def start(output: Path, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COLLECTOR, str(output)],
        cwd=HERE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, **options.pop("env", {})},
        **options,
    )


def read_lines(collector: subprocess.Popen[str], count: int) -> None:
    assert collector.stderr is not None
    for _ in range(count):
        assert collector.stderr.readline()


def workers_in(output: Path) -> list[int]:
    """Living processes that write below ``output``. A fresh fork still has its collector's command
    line and locks."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z" and any((part + b"/").startswith(bytes(output) + b"/") for part in command):
            found.append(int(entry.name))
    return found


def wait_until_none(output: Path) -> None:
    deadline = time.monotonic() + 30
    while alive := workers_in(output):
        assert time.monotonic() < deadline, f"processes {alive} outlived their collector"
        time.sleep(0.01)


def whole_runs(output: Path) -> list[str]:
    """The visible things in ``output``; each must be a whole bundle."""
    names = sorted(path.name for path in output.iterdir() if not path.name.startswith("."))
    for name in names:
        assert read_bundle(output / name).manifest.status == "complete"
    return names


@linux
def test_killed_at_ten_points_only_whole_bundles_are_left(tmp_path: Path) -> None:
    chance = random.Random(20261121)
    seen = set()
    for after in chance.sample(range(1, LINES + 1), 10):
        output = tmp_path / f"at-{after}"
        with start(output) as collector:
            read_lines(collector, after)
            time.sleep(chance.uniform(0, 0.08))
            collector.kill()
        wait_until_none(output)
        names = whole_runs(output)
        assert names in ([], ["eager"], ["eager", "graph"])
        seen.add(tuple(names))
        hidden = {path for path in output.iterdir() if path.name.startswith(".")}
        assert {leftover.path for leftover in remove_abandoned_folders(output)} == hidden
        assert sorted(path.name for path in output.iterdir()) == names
    # The points were spread over the whole collection.
    assert {(), ("eager",)} <= seen


@linux
def test_the_next_collection_removes_what_a_killed_one_left_and_says_so(tmp_path: Path) -> None:
    output = tmp_path / "x"
    with start(output) as collector:
        read_lines(collector, 2)
        collector.kill()
    wait_until_none(output)
    (left,) = output.iterdir()
    assert left.name.startswith(".collect.")
    with start(output) as again:
        _, errors = again.communicate(timeout=120)
    assert again.returncode == 0
    assert f"Removed {left.name}" in errors
    assert "left by a killed collector" in errors
    assert sorted(path.name for path in output.iterdir()) == ["eager", "graph"]


@linux
def test_ctrl_c_keeps_whole_runs_says_so_and_leaves_nothing_else(tmp_path: Path) -> None:
    output = tmp_path / "x"

    def heeded() -> None:
        # A shell that starts us in the background has the signal ignored.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with start(output, preexec_fn=heeded) as collector:
        # The eager run is whole by the time that a pass of the graph begins.
        read_lines(collector, 11)
        os.killpg(collector.pid, signal.SIGINT)
        _, errors = collector.communicate(timeout=300)
    assert collector.returncode == 130
    assert f"Kept in {output}: eager; nothing of graph was written." in errors
    assert errors.splitlines()[-1] == "Error: interrupted"
    assert "Traceback" not in errors
    assert [path.name for path in output.iterdir()] == ["eager"]
    wait_until_none(output)


@linux
def test_a_disk_that_is_full_during_a_pass_is_one_line_with_what_was_kept(tmp_path: Path) -> None:
    output = tmp_path / "x"

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))

    with start(
        output, env={"GRAPHVIZ_DASH_TEST_PASS": "fill"}, preexec_fn=small_files
    ) as collector:
        _, errors = collector.communicate(timeout=120)
    assert collector.returncode == 1
    (line,) = [line for line in errors.splitlines() if line.startswith("Error: ")]
    assert "File too large" in line
    assert line.endswith(f"Kept in {output}: eager; nothing of graph was written.")
    assert "Traceback" not in errors
    assert [path.name for path in output.iterdir()] == ["eager"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("crash", "the process was ended by signal SIGSEGV"),
        ("abort", "the process was ended by signal SIGABRT: terminate called"),
    ],
)
def test_a_crash_below_python_says_in_which_line_it_came(
    tmp_path: Path, how: str, message: str
) -> None:
    output = tmp_path / "x"
    with start(output, env={"GRAPHVIZ_DASH_TEST_PASS": how}) as collector:
        collector.communicate(timeout=120)
    (failure,) = read_bundle(output / "graph").manifest.failures
    assert failure.message == message
    assert "Fatal Python error: " in failure.traceback
    assert "fake_worker.py" in failure.traceback
    assert "Extension modules" not in failure.traceback
