from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.processes import bind, stop

ROOT = Path(__file__).parents[1]
_PARENT = """
import subprocess, sys
from tests.processes import bind
print(subprocess.Popen(bind(["sleep", "100"])).pid, flush=True)
sys.stdin.read()
"""
_STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"]).pid, flush=True)
sys.stdin.read()
"""


def _has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _wait_for_end(pid: int) -> None:
    until = time.monotonic() + 30
    while not _has_ended(pid):
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_child_ends_with_a_killed_test() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", _PARENT], cwd=ROOT, **pipes) as parent:  # type: ignore[call-overload]
        child = int(parent.stdout.readline())
        assert not _has_ended(child)
        parent.kill()
        _wait_for_end(child)


def test_a_process_that_ignores_the_end_is_killed_with_its_children() -> None:
    process = subprocess.Popen(
        bind([sys.executable, "-c", _STUBBORN]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    child = int(process.stdout.readline())
    stop(process, seconds=0.2)
    process.stdin.close()
    process.stdout.close()
    assert process.returncode == -9
    _wait_for_end(child)
