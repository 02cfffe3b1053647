"""The DAG in headless Chromium: from an address to painted, unfolding, frames while zooming.

    python benchmarks/dag.py [--nodes 1000 10000] [--repeats 10]

Makes an experiment whose graph is a line of that many kernels in modules of four, serves the
dashboard on it, and drives the Graph page. Prints medians, the longest in brackets.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from graphviz_dash.analysis.whole import whole_graph  # noqa: E402
from graphviz_dash.charts.dag import ColourBy, dag_view, folded  # noqa: E402
from graphviz_dash.ingest.load import load_run  # noqa: E402
from tests.builders import chain, make_experiment  # noqa: E402
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


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for count in arguments.nodes:
            make_experiment(Path(scratch) / f"line-{count}", work=chain(count))
            fold_times(Path(scratch) / f"line-{count}" / "graph", count)
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
                for count in arguments.nodes:
                    page = browser.new_page(viewport={"width": 1280, "height": 860})
                    measure(page, address, count, arguments.repeats)
                    page.close()
                browser.close()
        finally:
            server.terminate()
            server.wait(10)


def fold_times(run: Path, count: int) -> None:
    """Folding and one view, on the server."""
    table = whole_graph(load_run(run), "graph-0")
    folds = [timed(lambda: folded(table)) for _ in range(7)]
    graph = folded(table)
    views = [timed(lambda: dag_view(graph, ColourBy.CATEGORY, 1.3)) for _ in range(7)]
    say(count, "fold", folds)
    say(count, "view", views)


def measure(page: Page, address: str, count: int, repeats: int) -> None:
    """The page in the browser."""
    url = f"{address}/graph?experiment=line-{count}&run=graph"
    open_page(page, url)  # The server reads and matches the traces once.
    say(count, "address to painted", [timed(lambda: open_page(page, url)) for _ in range(repeats)])
    canvas = page.locator(".dag canvas")
    unfold = []
    for _ in range(repeats):
        unfold.append(
            page.evaluate(
                """async canvas => {
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
            }""",
                canvas.element_handle(),
            )
        )
    say(count, "unfold, click to drawn", unfold)
    frames: list[float] = canvas.evaluate(_FRAMES)
    frames.sort()
    print(
        f"{count:>7,} nodes  frame while zooming: p95 {frames[int(len(frames) * 0.95)]:.1f} ms, "
        f"longest {frames[-1]:.1f} ms"
    )


def open_page(page: Page, url: str) -> None:
    """Loads the page and waits for the canvas to be painted with boxes."""
    page.goto(url)
    page.locator('.dag canvas[data-boxes]:not([data-boxes=""])').wait_for(timeout=60_000)


def timed(action: Any) -> float:
    """Milliseconds that ``action`` takes."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1e3


def say(count: int, what: str, values: list[float]) -> None:
    """One line of the result."""
    print(f"{count:>7,} nodes  {what}: {statistics.median(values):.0f} ms ({max(values):.0f})")


if __name__ == "__main__":
    main()
