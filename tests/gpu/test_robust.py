from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from collectors.collection.requirements import is_installed
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.staging import remove_abandoned_folders
from graphviz_dash.model.run import ExecutionMode, Pass
from tests.collectors.test_robust import wait_until_none

HERE = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
NODE_IDS = ("--node-ids",) if is_installed("cupti.cupti") else ()

PASSES = [one.value for one in (Pass.CLEAN, Pass.CAPTURE, Pass.TRACED, Pass.MEMORY, Pass.NODE_IDS)]

KILLS = 10
EAGER_LINES = 9
"""Lines of progress until the eager run is written: the environment, two for the clean pass of each
mode, two for each other pass of this one."""
LINES = 15


def start(output: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "graphviz_dash.app.cli.main", "collect", "-o", str(output)),
            *("--iterations=20", "--processes=1", *options),
        ],
        cwd=HERE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, **environment},
    )


def errors_of(collector: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = collector.communicate(timeout=300)
    return collector.returncode, errors


def kill_after(collector: subprocess.Popen[str], lines: int, seconds: float) -> None:
    assert collector.stderr is not None
    for _ in range(lines):
        assert collector.stderr.readline()
    time.sleep(seconds)
    collector.kill()
    collector.communicate()


@pytest.mark.timeout(400)
def test_killed_at_ten_random_points(tmp_path: Path) -> None:
    chance = random.Random(5)
    points = [(chance.randrange(1, LINES), chance.uniform(0, 3)) for _ in range(KILLS)]
    outputs = [tmp_path / f"at-{place}" for place in range(KILLS)]
    running = [start(output, "--workload=mlp-train", *NODE_IDS) for output in outputs]
    with ThreadPoolExecutor(KILLS) as killers:
        for killer in [
            killers.submit(kill_after, one, *point)
            for one, point in zip(running, points, strict=True)
        ]:
            killer.result()
    for output, (lines, _) in zip(outputs, points, strict=True):
        wait_until_none(output)
        names = {path.name for path in output.iterdir() if not path.name.startswith(".")}
        for name in names:
            assert read_bundle(output / name).manifest.status == "complete"
        assert ("eager" in names) >= (lines > EAGER_LINES)
        hidden = {path for path in output.iterdir() if path.name.startswith(".")}
        assert {leftover.path for leftover in remove_abandoned_folders(output)} == hidden
        assert {path.name for path in output.iterdir()} == names
    # Some were killed late enough to have a run, and some too early.
    assert 0 < sum(lines > EAGER_LINES for lines, _ in points) < KILLS


@pytest.fixture(scope="module")
def hungry(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int, str]]:
    """A collection for each pass that runs out of memory in it: folder, exit code and stderr."""
    passes = [one for one in PASSES if one != Pass.NODE_IDS or NODE_IDS]
    folder = tmp_path_factory.mktemp("hungry")
    running = {
        name: start(
            folder / name, "--workload=tests.gpu.hungry:linear", *NODE_IDS, HUNGRY_PASS=name
        )
        for name in passes
    }
    return {name: (folder / name, *errors_of(one)) for name, one in running.items()}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", PASSES)
def test_out_of_memory_in_a_pass(hungry: dict[str, tuple[Path, int, str]], name: str) -> None:
    if name not in hungry:
        pytest.skip("cupti-python is not installed")
    output, code, errors = hungry[name]
    assert code == 1, errors
    last = errors.splitlines()[-1]
    assert last.startswith("Error: 1 of 2 runs failed. graph: ")
    assert f"{name} pass, OutOfMemoryError: CUDA out of memory" in last
    assert "Complete runs kept: eager" in last
    assert "Traceback" not in errors
    assert read_bundle(output / "eager").manifest.status == "complete"
    failed = read_bundle(output / "graph")
    (failure,) = failed.manifest.failures
    assert (failure.stage.value, failure.error) == (name, "OutOfMemoryError")
    assert failure.location is not None
    assert failure.location.startswith("tests/gpu/hungry.py:")
    assert (failed.clean is None) == (name == "clean")
    assert sorted(path.name for path in output.iterdir()) == ["eager", "graph"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    done = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=3m", "none", str(place)],
        check=False,
        capture_output=True,
    )
    if not done or done.returncode != 0:
        pytest.skip("may not mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.timeout(200)
def test_a_full_disk_is_one_line_with_what_was_kept(small_disk: Path) -> None:
    output = small_disk / "x"
    code, errors = errors_of(
        start(output, "--workload=mlp-train", "--modes=graph,eager", "--traced-iterations=60")
    )
    assert code == 1
    (line,) = [line for line in errors.splitlines() if line.startswith("Error: ")]
    assert "No space left on device" in line
    assert "Kept in" in line or "Nothing was kept" in line
    assert "Traceback" not in errors
    assert all(not path.name.startswith(".") for path in output.iterdir())
    assert {path.name for path in output.iterdir()} <= {mode.value for mode in ExecutionMode}
    for path in output.iterdir():
        assert read_bundle(path).manifest.status == "complete"
