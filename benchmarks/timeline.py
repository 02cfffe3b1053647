"""Measures the timeline: building, views, and what the reader waits for in a real browser.

    python benchmarks/timeline.py [--slices 100000] [--trace synthetic] [--repeats 12]

Needs playwright and a Chromium; the browser draws without a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec
from page_figures import Row, mark, most_mb, p95, resident_mb, row, show
from pages import SHOWN
from playwright.sync_api import Browser, Page, sync_playwright
from timeline_traces import large_experiment

from graphviz_dash.analysis.replays.replays import get_identities, match_replays
from graphviz_dash.analysis.trace.lanes import build_trace_lanes
from graphviz_dash.features.timeline.view.run import ChosenRun, build_run_timeline, choose_step
from graphviz_dash.features.timeline.view.view import build_timeline_view
from graphviz_dash.ingest.load import load_experiment
from tests.chromium import system_chromium
from tests.serving import ROOT, served

SITE = Path(__file__).parent / "timeline_site" / "app.py"
PARTS = ("server", "browser", "memory")
INTERACTIONS = (["w"] * 6, ["."], ["."], ["d"], ["m", "m"], ["Escape", "Escape"], ["f"])
"""Keys pressed together: zoom in, select, select the next, pan, a ruler, clear both, see all."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, default=100_000)
    parser.add_argument("--sample", default="transformer-train", help="the recorded experiment")
    parser.add_argument(
        "--trace",
        choices=("recorded", "synthetic"),
        default="recorded",
        help="its own traces repeated, or synthetic ones",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:2])
    parser.add_argument("--repeats", type=int, default=12)
    options = parser.parse_args()
    sample = ROOT / "sample_traces" / options.sample
    label = f"{options.sample}, {options.trace}, 2 runs of {options.slices:,} GPU slices"
    if "server" in options.parts:
        synthetic = options.trace == "synthetic"
        show(f"{label}, on the server", on_the_server(sample, options.slices, synthetic))
    environment = {
        "TIMELINE_SAMPLE": str(sample),
        "TIMELINE_SLICES": str(options.slices),
        "TIMELINE_TRACE": options.trace,
        "GRAPHVIZ_DASH_PATHS": str(sample.parent),
    }
    for part, act in (("browser", in_browser), ("memory", in_memory)):
        if part not in options.parts:
            continue
        with served(SITE, environment=environment) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
            )
            rows = act(browser, server.address, server.pid, options.sample, options.repeats)
            show(f"{label}, {part}", rows)


def on_the_server(sample: Path, slices: int, synthetic: bool) -> list[Row]:
    large = large_experiment(load_experiment(sample), slices, synthetic=synthetic)
    eager, graph = large.runs[:2]
    rows = [
        _timed(f"lanes of {eager.name} (trace/lanes.py)", lambda: build_trace_lanes(_trace(eager))),
        _timed(f"{eager.name} made ready", lambda: build_run_timeline(eager)),
        _timed(f"{graph.name} made ready", lambda: build_run_timeline(graph)),
        _timed(
            f"slices of {graph.name} matched with nodes",
            lambda: match_replays(graph.graphs, _trace(graph), get_identities(graph)),
        ),
    ]
    runs = [choose_step(build_run_timeline(run), None) for run in (eager, graph)]
    end = runs[0].timeline.end
    windows = {
        "whole trace": (0, end),
        "chosen step": None,
        "2 ms": (1_000_000, 3_000_000),
        "20 µs": (100_000, 120_000),
    }
    for what, window in windows.items():
        view = build_timeline_view(runs, window, 1200)
        size = len(msgspec.json.encode(view))
        label = f"view, {what} ({view.level}, {size / 1000:.1f} kB)"
        rows.append(_timed(label, partial(_encoded, runs, window)))
    return rows


def _trace(run: Any) -> Any:
    return run.replay_trace


def _encoded(runs: list[ChosenRun], window: tuple[int, int] | None) -> bytes:
    return msgspec.json.encode(build_timeline_view(runs, window, 1200))


def _timed(label: str, act: Callable[[], object], repeats: int = 10) -> Row:
    times = []
    for _ in range(repeats):
        start_time = time.perf_counter()
        act()
        times.append((time.perf_counter() - start_time) * 1000)
    middle = sorted(times)[len(times) // 2]
    return label, f"{middle:.1f} ms", f"{max(times):.1f} ms"


def in_browser(browser: Browser, address: str, _: int, sample: str, repeats: int) -> list[Row]:
    page = browser.new_page(viewport={"width": 1360, "height": 860})
    page_url = f"{address}/timeline?experiment={sample}"
    page.goto(page_url)
    mark(page, "timeline:painted", 0)
    _complete(page)
    first = [_first_view(page, address) for _ in range(repeats)]
    repeat_times = []
    for _ in range(repeats):
        _leave(page)
        repeat_times.append(_enter(page))
    rows = [
        row("another page -> first view of these runs, nothing known", [one[0] for one in first]),
        row("   ... to nodes and differences", [one[1] for one in first]),
        row("another page -> timeline, seen before", repeat_times),
    ]
    canvas = page.locator(".timeline canvas")
    rows += _moved(page, canvas, repeats)
    rows.append(row("click on a slice -> card", _cards(page, canvas, repeats)))
    kilobytes = [one / 1000 for one in canvas.evaluate("c => c.__timeline.loader.sizes")]
    rows.append(("kB of a view, median / most", *(f"{one:.1f} kB" for one in _spread(kilobytes))))
    return rows


def _spread(values: list[float]) -> tuple[float, float]:
    return sorted(values)[len(values) // 2], max(values)


def _complete(page: Page) -> None:
    page.locator(".timeline canvas[data-complete='yes']").wait_for(timeout=60_000)


def _leave(page: Page) -> None:
    page.get_by_role("link", name="Export", exact=True).click()
    page.locator(".timeline").wait_for(state="detached")
    page.locator(".perfetto").first.wait_for()
    page.wait_for_timeout(300)


def _enter(page: Page) -> float:
    link = page.get_by_role("link", name="Timeline", exact=True)
    click_ms = link.evaluate("l => { const now = performance.now(); l.click(); return now; }")
    return mark(page, "timeline:painted", click_ms) - click_ms


def _first_view(page: Page, address: str) -> tuple[float, float]:
    """ms to the first view of runs that nothing is known of, and to its nodes and differences."""
    _leave(page)
    page.request.get(f"{address}/forget")
    paint_ms = _enter(page)
    start_time = time.perf_counter()
    _complete(page)
    return paint_ms, paint_ms + (time.perf_counter() - start_time) * 1000


def _moved(page: Page, canvas: Any, repeats: int) -> list[Row]:
    refine_ms, wait_ms, deltas, drawing = [], [], [], []
    for turn in range(repeats):
        point = {"x": 500 + 20 * turn, "y": 120}
        canvas.hover(position={"x": point["x"], "y": point["y"]})
        frames = canvas.evaluate(_WHEEL, {**point, "count": 40, "delta": 28 if turn % 2 else -28})
        deltas += frames["deltas"]
        drawing += frames["drawing"]
        wait_ms.append(mark(page, "timeline:refined", frames["last"]) - frames["last"])
        refine_ms.append(float(canvas.get_attribute("data-refine-ms") or "nan"))
        page.wait_for_timeout(150)
    pan_ms = []
    canvas.focus()
    for turn in range(repeats):
        start_time = page.evaluate("performance.now()")
        page.keyboard.press("d" if turn % 2 else "a")
        mark(page, "timeline:refined", start_time)
        pan_ms.append(float(canvas.get_attribute("data-refine-ms") or "nan"))
        page.wait_for_timeout(250)
    return [
        row("refine after a zoom, request -> drawn", refine_ms),
        row("refine after a zoom, last wheel event -> drawn (60 ms wait in it)", wait_ms),
        row("refine after a pan, request -> drawn", pan_ms),
        ("between two frames while zooming, p95 / longest", *_ms(deltas)),
        ("drawing one frame, p95 / longest", *_ms(drawing)),
    ]


def _ms(values: list[float]) -> tuple[str, str]:
    return f"{p95(values):.1f} ms", f"{max(values):.1f} ms"


def _cards(page: Page, canvas: Any, repeats: int) -> list[float]:
    canvas.evaluate("c => c.__timeline.setWindow([1000000, 1400000])")
    page.wait_for_timeout(400)
    names = canvas.evaluate(
        "c => c.__timeline.state.listSlices().filter(s => s.token[0] === 'g' && s.start > 1000000"
        " && s.start + s.dur < 1400000 && s.dur > 2000)"
    )
    times = []
    for node_name in names[:repeats]:
        box = canvas.evaluate(
            "({ __timeline: t }, s) => t.state.getSliceRect(t.viewport, s.run, s.token)", node_name
        )
        where = canvas.bounding_box()
        start_time = page.evaluate("performance.now()")
        page.mouse.click(
            where["x"] + box["x"] + box["width"] / 2, where["y"] + box["y"] + box["height"] / 2
        )
        times.append(mark(page, "timeline:card", start_time) - start_time)
        page.wait_for_timeout(200)
    return times


def in_memory(browser: Browser, address: str, process: int, sample: str, repeats: int) -> list[Row]:
    """Measure server memory before, with the first view, with all facts found, and after
    ``repeats`` rounds of INTERACTIONS and another page."""
    rows = [("server, both traces loaded", f"{resident_mb(process):.0f} MB", "")]
    page = browser.new_page(viewport={"width": 1360, "height": 860})
    page.goto(f"{address}/timeline?experiment={sample}")
    mark(page, "timeline:painted", 0)
    rows.append(("   ... first view", f"{resident_mb(process):.0f} MB", ""))
    _complete(page)
    rows.append(("   ... nodes and differences", f"{resident_mb(process):.0f} MB", ""))
    for name in (*SHOWN, "Timeline"):
        page.get_by_role("link", name=name, exact=True).first.click()
        page.locator(".pages [aria-current]", has_text=name).wait_for()
        page.locator("[data-test-script-state='notRunning']").first.wait_for(timeout=120_000)
    page.locator(".timeline canvas[data-painted]").wait_for()
    rows.append(("   ... every page opened", f"{resident_mb(process):.0f} MB", ""))
    count = 0
    for turn in range(repeats):
        page.locator(".timeline canvas").focus()
        for keys in INTERACTIONS:
            for key in keys:
                page.keyboard.press(key)
            page.wait_for_timeout(60)
        _leave(page)
        _enter(page)
        count += len(INTERACTIONS) + 1
        if (turn + 1) % max(1, repeats // 5) == 0:
            rows.append((f"after {count} interactions", f"{resident_mb(process):.0f} MB", ""))
    rows.append(("most at any time since its start", f"{most_mb(process):.0f} MB", ""))
    return rows


_WHEEL = """
async (canvas, { x, y, count, delta }) => {
  const box = canvas.getBoundingClientRect();
  const deltas = [];
  canvas.__timeline.renderer.frames.length = 0;
  let before = await new Promise(requestAnimationFrame);
  let last = 0;
  for (let i = 0; i < count; i++) {
    last = performance.now();
    canvas.dispatchEvent(new WheelEvent("wheel", {
      clientX: box.left + x, clientY: box.top + y, deltaY: delta, ctrlKey: true,
      bubbles: true, cancelable: true,
    }));
    const now = await new Promise(requestAnimationFrame);
    deltas.push(now - before);
    before = now;
  }
  return { deltas, drawing: canvas.__timeline.renderer.frames.slice(), last };
}
"""


if __name__ == "__main__":
    main()
