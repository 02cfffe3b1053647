"""The dashboard served on the samples, and a browser to look at it with."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, expect

from tests.chromium import system_chromium

# How fast a page is, is measured in benchmarks/; here it may wait for a busy machine.
expect.set_options(timeout=30_000)

ROOT = Path(__file__).parents[2]
_START_SECONDS = 60


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_served(address: str, server: subprocess.Popen[bytes]) -> None:
    """Returns once the server at ``address`` is healthy; AssertionError when it never is."""
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise AssertionError(f"{address} did not answer within {_START_SECONDS} s")


@pytest.fixture(scope="session")
def dashboard() -> Iterator[str]:
    """The address of the dashboard on sample_traces, as ``streamlit run app.py`` serves it."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py")]
    command += [f"--server.port={port}", "--server.headless=true"]
    command += ["--server.fileWatcherType=none", "--", "sample_traces"]
    server = subprocess.Popen(command, cwd=ROOT)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_served(address, server)
        yield address
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture(scope="session")
def browser(driver: Playwright) -> Iterator[Browser]:
    """A real Chromium: the system's, else Playwright's own."""
    opened = driver.chromium.launch(
        executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
    )
    yield opened
    opened.close()
