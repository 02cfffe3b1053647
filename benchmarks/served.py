"""What the benchmarks of the pages share: a server, marks of the page, figures in rows."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).parents[1]
Row = tuple[str, str, str]


@contextmanager
def served(
    app: Path, environment: Mapping[str, str], *arguments: str
) -> Iterator[tuple[str, int, float]]:
    """The app in a file, with the settings of the repository: its address, process id, and ms from
    its start to its first answer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(app), f"--server.port={port}"]
    command += ["--server.address=127.0.0.1", "--server.headless=true"]
    command += ["--browser.gatherUsageStats=false", "--server.fileWatcherType=none"]
    if arguments:
        command += ["--", *arguments]
    begun = time.perf_counter()
    server = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | dict(environment), stdout=sys.stderr
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/_stcore/health")
        yield address, server.pid, (time.perf_counter() - begun) * 1000
    finally:
        server.terminate()
        server.wait(10)


def _wait_for(address: str) -> None:
    for _ in range(6000):
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.01)
    raise SystemExit(f"{address} did not answer within a minute")


def row(what: str, ms: list[float]) -> Row:
    """Median and longest of some times, in ms."""
    return what, f"{statistics.median(ms):.0f} ms", f"{max(ms):.0f} ms"


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def mark(page: Page, name: str, after: float) -> float:
    """When the mark ``name`` was set last, in ms of the page, waiting for one after ``after``."""
    found = page.wait_for_function(
        "([name, after]) => { const all = performance.getEntriesByName(name);"
        " const last = all[all.length - 1];"
        " return last && last.startTime > after ? last.startTime : null; }",
        arg=[name, after],
        polling=5,
        timeout=30_000,
    )
    return float(found.json_value())


def resident_mb(process: int) -> float:
    """The resident memory of a process on Linux, in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_ms(process: int) -> float:
    """The CPU time of a process so far on Linux, in ms."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(title: str, rows: list[Row]) -> None:
    """Prints rows as a table."""
    print(title)
    for what, median, longest in rows:
        print(f"| {what} | {median} | {longest} |", flush=True)
