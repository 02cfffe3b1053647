from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.forked import ForkServer, get_fork_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Facts that a program can read about its process.
FACTS = """
import os, signal, sys, threading
print(sys.argv, os.getcwd(), sys.path, sorted(os.environ.items()), __name__, sys.stdin.read())
print(signal.getsignal(signal.SIGINT), threading.active_count(), os.listdir("/proc/self/fd"))
print("error", file=sys.stderr)
"""
ENDS = {
    "the end": ("pass", 0),
    "an exit": ("import sys; sys.exit(3)", 3),
    "an error": ("1 / 0", 1),
    "an interrupt": ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
    "a kill": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
}


@pytest.fixture(scope="module")
def server() -> ForkServer:
    return get_fork_server("json")


def _start(code: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]
    )


def test_a_fork_is_as_a_new_process(server: ForkServer, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": f"{tmp_path}/a:{tmp_path}", "X": "1", "LC_CTYPE": "C.UTF-8"}
    forked = server.run(FACTS, "--a", "b", cwd=tmp_path, env=environment)
    started = _start(FACTS, "--a", "b", cwd=tmp_path, env=environment)
    assert (forked.returncode, forked.stdout) == (0, started.stdout)
    assert forked.stderr == started.stderr == "error\n"


@pytest.mark.parametrize(("code", "expected"), ENDS.values(), ids=ENDS)
def test_a_fork_ends_as_a_process(server: ForkServer, code: str, expected: int) -> None:
    at_exit = "import atexit; atexit.register(print, 'at exit', flush=True)\n"
    forked, started = server.run(at_exit + code), _start(at_exit + code)
    assert forked.returncode == started.returncode == expected
    assert forked.stdout == started.stdout
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_modules_are_imported_once(server: ForkServer) -> None:
    assert server.run("import sys; print('json' in sys.modules)").stdout == "True\n"
    assert get_fork_server("json") is server


def test_a_fork_that_still_runs_is_killed(server: ForkServer) -> None:
    with tempfile.TemporaryFile() as output:
        with (
            pytest.raises(KeyError),
            server.start("import time; time.sleep(60)", stdout=output, stderr=output) as fork,
        ):
            raise KeyError
        assert fork.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(fork.pid, 0)
    assert server.run("print(1)").stdout == "1\n"
