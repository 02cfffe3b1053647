"""The DAG in headless Chromium: from choosing a graph to painted, unfolding, frames while zooming.

    python benchmarks/dag.py [--nodes 1000 10000 50000] [--shapes line decode] [--repeats 10]

Makes experiments whose graphs are a line of kernels in modules of four, or a recorded graph
repeated, serves the dashboard on them, and drives its pages. Prints medians, the longest in
brackets.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.dag_graphs import make_graphs  # noqa: E402
from graphviz_dash.analysis.fold import fold  # noqa: E402
from graphviz_dash.analysis.whole import whole_graph  # noqa: E402
from graphviz_dash.charts.dag import ColourBy, dag_view, folded  # noqa: E402
from graphviz_dash.ingest.load import load_run  # noqa: E402
from graphviz_dash.ui.store import COLLECTION  # noqa: E402
from tests.ui.conftest import free_port, wait_until_served  # noqa: E402

_FRAMES = """async canvas => {
  const times = [];
  let last = performance.now();
  for (let i = 0; i < 120; i++) {
    const bounds = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new WheelEvent('wheel', {
      deltaY: i % 40 < 20 ? -40 : 40, clientX: bounds.left + 300, clientY: bounds.top + 200,
      cancelable: true,
    }));
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times.slice(5);
}"""

_UNFOLD = """async canvas => {
  const dag = canvas.__dag;
  const box = dag.view.boxes.find(one => one.node < 0 && !one.open);
  if (!box) return 0;
  const begin = performance.now();
  const painted = dag.painted;
  dag.act(box);
  while (!dag.byId.get(box.id).open || dag.painted === painted) {
    if (performance.now() - begin > 5000) return NaN;
    await new Promise(requestAnimationFrame);
  }
  const took = performance.now() - begin;
  await dag.load({ fresh: true, fit: true });
  return took;
}"""

_CLICK = """link => { window.__clicked = performance.now(); link.click(); }"""

_SHOWN = """async () => {
  // Painted: the frame after the one in which a view fetched since the click was drawn.
  const until = window.__clicked + 20000;
  while (performance.now() < until) {
    const marks = performance.getEntriesByName('dag:shown');
    if (marks.length && marks[marks.length - 1].startTime > window.__clicked) {
      await new Promise(requestAnimationFrame);
      return performance.now() - window.__clicked;
    }
    await new Promise(requestAnimationFrame);
  }
  return NaN;
}"""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    parser.add_argument("--shapes", nargs="+", default=["line", "transformer-train"])
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        names = []
        for shape in arguments.shapes:
            for count in arguments.nodes:
                name = f"{shape}-{count}"
                make_graphs(Path(scratch) / name, shape, count)
                on_the_server(Path(scratch) / name / "graph", name)
                names.append(name)
        in_the_browser(scratch, names, arguments.repeats)


def on_the_server(run: Path, name: str) -> None:
    """Folding and views, without a browser."""
    whole = whole_graph(load_run(run), "graph-0")
    say(name, "fold", built(lambda: fold(whole)))
    say(name, "folded and made ready", built(lambda: folded(whole)))
    graph = folded(whole)
    view = dag_view(graph, ColourBy.CATEGORY, 1.3)
    say(name, "view", [timed(lambda: dag_view(graph, ColourBy.CATEGORY, 1.3)) for _ in range(10)])
    boxes, kilobytes = [len(view.boxes)], [len(msgspec.json.encode(view)) / 1e3]
    step = max(1, len(graph.groups) // 50)
    for group in list(graph.groups)[::step]:
        opened = dag_view(
            graph, ColourBy.CATEGORY, 1.3, [*view.expanded, *graph.groups][:400], None, group
        )
        boxes.append(len(opened.boxes))
        kilobytes.append(len(msgspec.json.encode(opened)) / 1e3)
    print(
        f"{name:>24}  first view: {boxes[0]} boxes, {kilobytes[0]:.1f} kB; "
        f"most of any: {max(boxes)} boxes, {max(kilobytes):.1f} kB"
    )


def in_the_browser(scratch: str, names: list[str], repeats: int) -> None:
    """Serves what is in ``scratch`` and measures its pages."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}"]
    command += ["--server.headless=true", "--server.fileWatcherType=none", "--", scratch]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_served(address, server)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            for name in names:
                page = browser.new_page(viewport={"width": 1280, "height": 860})
                measure(page, address, name, repeats)
                page.close()
            browser.close()
    finally:
        server.terminate()
        server.wait(10)


def measure(page: Page, address: str, name: str, repeats: int) -> None:
    """The page in the browser."""
    url = f"{address}/graph?experiment={name}&run="
    for run in ("other", "graph"):  # The server reads and matches the traces once.
        first = timed(lambda run=run: open_page(page, url + run))
    print(f"{name:>24}  first of the server: {first:.0f} ms")
    say(
        name,
        "new tab to painted",
        [timed(lambda: open_page(page, f"{url}graph")) for _ in range(repeats)],
    )
    chosen, switched = [], []
    for turn in range(repeats):
        run = "graph" if turn % 2 else "other"
        page.get_by_role("radio", name=run, exact=True).evaluate(_CLICK)
        chosen.append(page.evaluate(_SHOWN))
        page.wait_for_timeout(400)
    say(name, "choosing the other run to painted", chosen)
    for _ in range(repeats):
        page.get_by_role("link", name="Overview").first.click()
        page.locator(".dag").wait_for(state="detached", timeout=30_000)
        page.wait_for_timeout(800)
        page.get_by_role("link", name="Graph", exact=True).first.evaluate(_CLICK)
        switched.append(page.evaluate(_SHOWN))
        page.wait_for_timeout(400)
    say(name, "page switch to painted", switched)
    canvas = page.locator(".dag canvas")
    say(name, "unfold, click to drawn", [canvas.evaluate(_UNFOLD) for _ in range(repeats)])
    frames: list[float] = canvas.evaluate(_FRAMES)
    frames.sort()
    print(
        f"{name:>24}  frame while zooming: p95 {frames[int(len(frames) * 0.95)]:.1f} ms, "
        f"longest {frames[-1]:.1f} ms"
    )


def open_page(page: Page, url: str) -> None:
    """Loads the page and waits for the canvas to be painted with boxes."""
    page.goto(url)
    page.locator('.dag canvas[data-boxes]:not([data-boxes=""])').wait_for(timeout=120_000)


def built(build: Callable[[], Any]) -> list[float]:
    """Milliseconds that building something takes, as the server's store builds it."""
    found = []
    for _ in range(7):
        with COLLECTION.put_off():
            found.append(timed(build))
    return found


def timed(action: Callable[[], Any]) -> float:
    """Milliseconds that ``action`` takes."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1e3


def say(name: str, what: str, values: list[float]) -> None:
    """One line of the result."""
    print(f"{name:>24}  {what}: {statistics.median(values):.0f} ms ({max(values):.0f})", flush=True)


if __name__ == "__main__":
    main()
