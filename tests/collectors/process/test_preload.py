from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from collectors.process.fork_server import ForkServer
from collectors.process.lifeline import PARENT
from collectors.process.subprocesses import WorkerLimit
from tests.processes import get_state

WORKER = """
import os, signal, sys, threading, time
from collectors.process import preload
from collectors.process.fork_server import serve_forks
from collectors.process.lifeline import exit_with_parent
exit_with_parent()
what, log = sys.argv[4:6]
class Driver:
    def __init__(self, name): assert name == "libcuda.so.1"
    def cuInit(self, flags): return 3 if what == "cuda" else 0
preload.ctypes.CDLL = Driver if what in ("cuda", "fine") else preload.ctypes.CDLL
preload.IMPORT_S = 1 if what == "hang" else 60
preload.exit_with_parent = lambda: None if what in ("cuda", "fine") else exit_with_parent()
loaded = []
def load():
    open(log, "a").write(f"{os.getpid()} ")
    loaded.append(what)
    if what == "raise": raise ValueError
    if what == "exit": sys.exit(5)
    if what == "abort": os.abort()
    if what == "thread": threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if what == "hang": time.sleep(60)
    if what == "blas":
        import numpy
        numpy.ones((400, 400)) @ numpy.ones((400, 400))
    if what == "jemalloc": import pyarrow
refusal = preload.fork_with_modules(load)
arguments = serve_forks(int(sys.argv[2]), refusal)
if arguments is None:
    sys.exit(0)
print(*loaded, os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK"), file=sys.stderr)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux only")


def start(what: str, log: Path) -> ForkServer:
    environment = os.environ | {PARENT: str(os.getpid())}
    return ForkServer((sys.executable, "-c", WORKER), environment, "x", (what, str(log)))


def run(server: ForkServer) -> str:
    done = server.run((), WorkerLimit(None))
    assert done is not None
    assert done.returncode == 0
    return done.stderr.strip()


@pytest.mark.parametrize("what", ["fine", "without a driver", "blas", "jemalloc"])
def test_passes_find_the_modules_that_were_imported_once(tmp_path: Path, what: str) -> None:
    server = start(what, tmp_path / "log")
    assert [run(server) for _ in range(3)] == [f"{what} None"] * 3
    assert server.refusal is None
    assert len((tmp_path / "log").read_text().split()) == 1
    server.close()


@pytest.mark.parametrize(
    ("what", "effect"),
    [
        ("raise", "raises ValueError"),
        ("exit", "raises SystemExit"),
        ("abort", "ends the process with code -6"),
        ("thread", "starts threads"),
        ("cuda", "initialises CUDA"),
        ("hang", "takes more than 1 s"),
    ],
)
def test_without_a_safe_import_passes_import_themselves(
    tmp_path: Path, what: str, effect: str
) -> None:
    """Errors, threads, CUDA and endless imports leave the server as it was."""
    server = start(what, tmp_path / "log")
    assert [run(server) for _ in range(2)] == ["None"] * 2
    assert server.refusal == effect
    server.close()


def test_the_importing_process_ends_with_the_server(tmp_path: Path) -> None:
    server = start("without a driver", tmp_path / "log")
    run(server)
    pid = int((tmp_path / "log").read_text())
    server.close()
    deadline = time.monotonic() + 30
    while _is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return get_state(pid) != "Z"


def test_a_killed_pass_is_followed_by_the_next(tmp_path: Path) -> None:
    server = start("without a driver", tmp_path / "log")
    run(server)
    limit = WorkerLimit(None, lambda: "stopped", 0.0)
    server.run((), limit)
    assert run(server) == "without a driver None"
    os.kill(int((tmp_path / "log").read_text()), signal.SIGKILL)
    assert server.run((), WorkerLimit(None)) is None
    server.close()
