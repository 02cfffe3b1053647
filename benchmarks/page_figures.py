"""Helpers of the page benchmarks."""

from __future__ import annotations

import os
import statistics
from pathlib import Path

from playwright.sync_api import Page

Row = tuple[str, str, str]


def row(label: str, ms: list[float]) -> Row:
    """Median and longest of some times, in ms."""
    return label, f"{statistics.median(ms):.0f} ms", f"{max(ms):.0f} ms"


def p95(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def mark(page: Page, name: str, after: float) -> float:
    """Return when the mark ``name`` was set, in ms of the page; wait for one after ``after``."""
    mark_time = page.wait_for_function(
        "([name, after]) => { const all = performance.getEntriesByName(name);"
        " const last = all[all.length - 1];"
        " return last && last.startTime > after ? last.startTime : null; }",
        arg=[name, after],
        polling=5,
        timeout=30_000,
    )
    return float(mark_time.json_value())


def resident_mb(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def most_mb(process: int) -> float:
    """The most resident memory that a process ever had on Linux, in MB."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    line = next(line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def cpu_ms(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(title: str, rows: list[Row]) -> None:
    print(title)
    for label, median, max_ms in rows:
        print(f"| {label} | {median} | {max_ms} |", flush=True)
