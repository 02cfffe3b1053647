"""An app that Streamlit serves on this machine, for tests in a browser and for benchmarks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.processes import bind, find_free_port, stop

ROOT: Final = Path(__file__).parents[1]
START_SECONDS: Final = 180
_RUN_STREAMLIT: Final = """
import faulthandler, signal
faulthandler.register(signal.SIGUSR1)
from streamlit.web.cli import main
main(prog_name="streamlit")
"""
_DUMP_S: Final = 1.0
_PIDS: Final[set[int]] = set()
"""Servers of this process."""


@dataclass(frozen=True)
class Served:
    """A server: where it answers, its process, and ms from its start to its first answer."""

    address: str
    pid: int
    start_ms: float


@contextmanager
def served(
    app: Path, *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Serves ``app`` with ``arguments`` and the settings of the repository until the block ends.

    Raises:
        AssertionError: it did not answer within START_SECONDS, or ended before.
    """
    port = find_free_port()
    command = [sys.executable, "-c", _RUN_STREAMLIT, "run", str(app)]
    command += [f"--server.port={port}", "--server.address=127.0.0.1", "--server.headless=true"]
    command += ["--browser.gatherUsageStats=false", "--server.fileWatcherType=none"]
    command += ["--", *map(str, arguments)]
    begun = time.perf_counter()
    # What it prints goes to the error stream, so that a benchmark prints its figures alone.
    server = subprocess.Popen(
        bind(command), cwd=ROOT, env=os.environ | dict(environment or {}), stdout=sys.stderr
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for_server(address, lambda: server.poll() is None)
        _PIDS.add(server.pid)
        yield Served(address, server.pid, (time.perf_counter() - begun) * 1000)
    finally:
        _PIDS.discard(server.pid)
        stop(server)


def print_server_stacks() -> None:
    """Print the stacks of all threads of this process's servers to the error stream."""
    for pid in _PIDS:
        os.kill(pid, signal.SIGUSR1)
    time.sleep(_DUMP_S)


def wait_for_server(address: str, lives: Callable[[], bool]) -> None:
    """Wait until the server at ``address`` answers.

    Raises:
        AssertionError: it did not answer within START_SECONDS, or ended before.
    """
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and lives():
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.01)
    raise AssertionError(f"{address} did not answer within {START_SECONDS} s")
