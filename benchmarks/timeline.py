"""Measures the timeline: building, views, and what the reader waits for in a real browser.

    python benchmarks/timeline.py [--slices 100000] [--repeats 12]

Prints a table of medians; the numbers of benchmarks/README.md come from it. Needs playwright and a
Chromium; the browser draws without a GPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec
from playwright.sync_api import Page, sync_playwright
from timeline_traces import experiment

from graphviz_dash.analysis.lanes import trace_lanes
from graphviz_dash.charts.timeline import timeline_view
from graphviz_dash.charts.timeline_run import ChosenRun, choose, run_timeline

_SITE = Path(__file__).parent / "timeline_site"
Row = tuple[str, str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=12)
    options = parser.parse_args()
    rows = build_and_view(options.slices, options.repeats)
    rows += in_browser(options.slices, options.repeats)
    print(f"2 runs of {options.slices:,} GPU slices, {options.repeats} repeats")
    for what, median, worst in rows:
        print(f"| {what} | {median} | {worst} |")


def build_and_view(slices: int, repeats: int) -> list[Row]:
    made = experiment(slices)
    trace = made.runs[0].replay_trace
    assert trace is not None
    rows = [
        _timed("lanes of one run (analysis/lanes.py)", repeats, lambda: trace_lanes(trace)),
        _timed("one run made ready", repeats, lambda: run_timeline(made.runs[0])),
    ]
    runs = [choose(run_timeline(run), None) for run in made.runs]
    end = runs[0].timeline.end
    windows = {
        "whole trace": (0, end),
        "chosen step": None,
        "2 ms": (1_000_000, 3_000_000),
        "20 us": (100_000, 120_000),
    }
    for what, window in windows.items():
        view = timeline_view(runs, window, 1200)
        size = len(msgspec.json.encode(view))
        label = f"view, {what} ({view.level}, {size / 1000:.1f} kB)"
        rows.append(_timed(label, repeats, partial(_encoded, runs, window)))
    return rows


def _encoded(runs: list[ChosenRun], window: tuple[int, int] | None) -> bytes:
    return msgspec.json.encode(timeline_view(runs, window, 1200))


def _timed(what: str, repeats: int, act: Callable[[], object]) -> Row:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        act()
        times.append((time.perf_counter() - begun) * 1000)
    return _row(what, times)


def _row(what: str, ms: list[float]) -> Row:
    return what, f"{statistics.median(ms):.1f} ms", f"{max(ms):.1f} ms"


def in_browser(slices: int, repeats: int) -> list[Row]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}"]
    command += ["--server.address=127.0.0.1", "--server.headless=true"]
    command += ["--browser.gatherUsageStats=false", "--server.fileWatcherType=none"]
    server = subprocess.Popen(
        command, cwd=_SITE, env=os.environ | {"TIMELINE_SLICES": str(slices)}, stdout=sys.stderr
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/_stcore/health")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": 1360, "height": 800})
            return measure(page, f"http://127.0.0.1:{port}", repeats)
    finally:
        server.terminate()
        server.wait(10)


def _wait_for(address: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise SystemExit(f"{address} did not answer within a minute")


def measure(page: Page, address: str, repeats: int) -> list[Row]:
    page.goto(f"{address}/timeline")
    first = _mark(page, "timeline:painted", 0)
    loads, switches = [], []
    for _ in range(repeats):
        page.goto(f"{address}/timeline")
        loads.append(_mark(page, "timeline:painted", 0))
        page.get_by_role("link", name="start").click()
        page.get_by_text("The other page.").wait_for()
        link = page.get_by_role("link", name="timeline")
        clicked = link.evaluate("l => { const now = performance.now(); l.click(); return now; }")
        switches.append(_mark(page, "timeline:painted", clicked) - clicked)
    rows = [
        ("page loaded in a new tab -> painted, first of the server", f"{first:.0f} ms", ""),
        _row("page loaded again -> painted", loads),
        _row("switch from another page -> painted", switches),
    ]
    canvas = page.locator("canvas[aria-label^='Timeline of']")
    refined, waited, deltas, drawing = [], [], [], []
    for turn in range(repeats):
        place = {"x": 500 + 20 * turn, "y": 120}
        canvas.hover(position={"x": place["x"], "y": place["y"]})
        frames = canvas.evaluate(_WHEEL, {**place, "count": 40, "delta": -28 if turn % 2 else 28})
        deltas += frames["deltas"]
        drawing += frames["drawing"]
        waited.append(_mark(page, "timeline:refined", frames["last"]) - frames["last"])
        refined.append(float(canvas.get_attribute("data-refine-ms") or "nan"))
        page.wait_for_timeout(150)
    rows += [
        _row("refine after a zoom: request -> drawn", refined),
        _row("refine after a zoom: last wheel event -> drawn (60 ms wait in it)", waited),
        (
            "frames while zooming, p95 between frames / longest",
            f"{_p95(deltas):.1f} ms",
            f"{max(deltas):.1f} ms",
        ),
        (
            "drawing one frame, p95 / longest",
            f"{_p95(drawing):.1f} ms",
            f"{max(drawing):.1f} ms",
        ),
    ]
    return [*rows, _row("click on a slice -> card", _cards(page, canvas, repeats))]


def _cards(page: Page, canvas: Any, repeats: int) -> list[float]:
    canvas.evaluate("c => c.__timeline.show([1000000, 1400000])")
    page.wait_for_timeout(400)
    names = canvas.evaluate(
        "c => c.__timeline.slices().filter(s => s.token[0] === 'g' && s.start > 1000000"
        " && s.start + s.dur < 1400000 && s.dur > 4000)"
    )
    times = []
    for one in names[:repeats]:
        box = canvas.evaluate("(c, s) => c.__timeline.sliceRect(s.run, s.token)", one)
        where = canvas.bounding_box()
        begun = page.evaluate("performance.now()")
        page.mouse.click(
            where["x"] + box["x"] + box["width"] / 2, where["y"] + box["y"] + box["height"] / 2
        )
        times.append(_mark(page, "timeline:card", begun) - begun)
    return times


_WHEEL = """
async (canvas, { x, y, count, delta }) => {
  const box = canvas.getBoundingClientRect();
  const deltas = [];
  canvas.__timeline.frames.length = 0;
  let before = await new Promise(requestAnimationFrame);
  let last = 0;
  for (let i = 0; i < count; i++) {
    last = performance.now();
    canvas.dispatchEvent(new WheelEvent("wheel", {
      clientX: box.left + x, clientY: box.top + y, deltaY: delta, bubbles: true, cancelable: true,
    }));
    const now = await new Promise(requestAnimationFrame);
    deltas.push(now - before);
    before = now;
  }
  return { deltas, drawing: canvas.__timeline.frames.slice(), last };
}
"""


def _mark(page: Page, name: str, after: float) -> float:
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


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


if __name__ == "__main__":
    main()
