"""The DAG in headless Chromium: from choosing a graph to painted, unfolding, frames while zooming.

    python benchmarks/dag.py [--nodes 1000 10000 50000] [--shapes line decode] [--repeats 10]
        [--parts server cold open choose switch unfold refold card frames] [--kept FOLDER]

Graphs are lines of kernels in modules of four, or a repeated recorded graph. Prints medians, with
maxima in brackets. ``--kept`` makes the experiments once, in FOLDER.
"""

from __future__ import annotations

import argparse
import statistics
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
from graphviz_dash.analysis.nodes.whole_graph import expand_graph  # noqa: E402
from graphviz_dash.features.graph.drawing.colours import ColourBy  # noqa: E402
from graphviz_dash.features.graph.drawing.folded import build_folded_graph  # noqa: E402
from graphviz_dash.features.graph.drawing.layout import ALL_BLOCKS  # noqa: E402
from graphviz_dash.features.graph.drawing.view import build_dag_view  # noqa: E402
from graphviz_dash.features.graph.folding.fold import FoldCriterion, fold_graph  # noqa: E402
from graphviz_dash.ingest.load import load_run  # noqa: E402
from graphviz_dash.ui.state.store import COLLECTION  # noqa: E402
from tests.chromium import system_chromium  # noqa: E402
from tests.serving import served  # noqa: E402

_FRAMES = """async canvas => {
  const times = [];
  let last = performance.now();
  for (let i = 0; i < 120; i++) {
    const bounds = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new WheelEvent('wheel', {
      deltaY: i % 40 < 20 ? -40 : 40, clientX: bounds.left + 300, clientY: bounds.top + 200,
      ctrlKey: true, cancelable: true,
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
  let box = dag.state.view.boxes.find(one => one.node < 0 && !one.open);
  if (!box) {
    // All is unfolded: an inner group is folded first.
    const inner = dag.state.view.boxes.filter(one => one.open).pop();
    await dag.loader.load({ expanded: dag.state.view.expanded.filter(id => id !== inner.id) });
    box = dag.state.byId.get(inner.id);
  }
  const begin = performance.now();
  const view = dag.state.view;
  dag.activate(box);
  let painted = 0;
  let drawn = 0;
  while (dag.state.view === view || dag.renderer.tween || dag.renderer.painted < painted + 1) {
    if (performance.now() - begin > 5000) return null;
    await new Promise(requestAnimationFrame);
    if (dag.state.view === view) painted = dag.renderer.painted;
    else if (!drawn && dag.renderer.painted > painted) drawn = performance.now() - begin;
  }
  const settled = performance.now() - begin;
  await dag.loader.load({ fresh: true, fit: true });
  return [drawn || settled, settled];
}"""

_CARD = """async ([canvas, at]) => {
  const dag = canvas.__dag;
  const boxes = dag.state.view.boxes.filter(one => one.node >= 0);
  if (!boxes.length) return null;
  const box = boxes[(at * 7) % boxes.length];
  const place = dag.getPosition(box.node);
  const begin = performance.now();
  for (const type of ["pointerdown", "pointerup"])
    canvas.dispatchEvent(new PointerEvent(type, {
      clientX: place.x, clientY: place.y, button: 0, pointerId: 1, bubbles: true,
    }));
  const wanted = `${box.where} `;
  const shows = () => [...document.querySelectorAll(".node .kind")]
    .some(one => one.textContent.includes(wanted));
  while (!shows()) {
    if (performance.now() - begin > 5000) return null;
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - begin;
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

_COMPLETE = """async () => {
  const canvas = [...document.querySelectorAll('*')].map(one => one.shadowRoot || one)
    .map(root => root.querySelector('.dag canvas')).find(one => one);
  const until = window.__clicked + 20000;
  while (performance.now() < until) {
    if (canvas.__dag.state.view.complete) {
      await new Promise(requestAnimationFrame);
      return performance.now() - window.__clicked;
    }
    await new Promise(requestAnimationFrame);
  }
  return NaN;
}"""

_REFOLD = """async canvas => {
  const dag = canvas.__dag;
  const begin = performance.now();
  const view = dag.state.view;
  dag.foldBy('module');
  while (dag.state.view === view) {
    if (performance.now() - begin > 5000) return null;
    await new Promise(requestAnimationFrame);
  }
  await new Promise(requestAnimationFrame);
  return performance.now() - begin;
}"""

NO_CACHE = {"GRAPHVIZ_DASH_CACHE": "off"}
PARTS = ("server", "cold", "open", "choose", "switch", "unfold", "refold", "card", "frames")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    parser.add_argument("--shapes", nargs="+", default=["line", "transformer-train"])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--kept", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.kept or Path(scratch)
        names = []
        for shape in arguments.shapes:
            for count in arguments.nodes:
                name = f"{shape}-{count}"
                if not (folder / name).exists():
                    make_graphs(folder / name, shape, count)
                if "server" in arguments.parts:
                    on_the_server(folder / name / "graph", name)
                names.append(name)
        for name in names if "cold" in arguments.parts else ():
            on_a_cold_server(folder, name, arguments.repeats)
        parts = [part for part in arguments.parts if part not in ("server", "cold")]
        if parts:
            in_the_browser(str(folder), names, arguments.repeats, parts)


def on_the_server(run: Path, name: str) -> None:
    full_graph = expand_graph(load_run(run), "graph-0")
    say(name, "fold", built(lambda: fold_graph(full_graph)))
    say(name, "fold by module", built(lambda: fold_graph(full_graph, FoldCriterion.MODULE)))
    say(name, "folded and made ready", built(lambda: build_folded_graph(full_graph)))
    graph = build_folded_graph(full_graph)
    view = build_dag_view(graph, ColourBy.CATEGORY, 1.3)
    say(
        name,
        "view",
        [timed(lambda: build_dag_view(graph, ColourBy.CATEGORY, 1.3)) for _ in range(10)],
    )
    boxes, kilobytes = [len(view.boxes)], [len(msgspec.json.encode(view)) / 1e3]
    step = max(1, len(graph.groups) // 50)
    all_blocks = dict.fromkeys(graph.groups, ALL_BLOCKS)
    for group in list(graph.groups)[::step]:
        for shown in ({}, all_blocks):
            requested_ids = [*view.expanded, *graph.groups][:400]
            opened_view = build_dag_view(
                graph, ColourBy.CATEGORY, 1.3, requested_ids, None, group, shown
            )
            boxes.append(len(opened_view.boxes))
            kilobytes.append(len(msgspec.json.encode(opened_view)) / 1e3)
    print(
        f"{name:>24}  first view: {boxes[0]} boxes, {kilobytes[0]:.1f} kB; "
        f"most of any: {max(boxes)} boxes, {max(kilobytes):.1f} kB"
    )


def on_a_cold_server(folder: Path, name: str, repeats: int) -> None:
    """Open the graph from the overview, each time with a new server and browser and an empty
    cache."""
    paint_times, complete = [], []
    for _ in range(repeats):
        with (
            served(ROOT / "app.py", folder / name, environment=NO_CACHE) as server,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(
                executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.goto(server.address)
            link = page.locator(f'a[href*="graph?experiment={name}"]').first
            link.wait_for(timeout=120_000)
            page.wait_for_timeout(500)
            # The experiment is read.
            page.locator('[data-test-script-state="notRunning"]').wait_for(timeout=120_000)
            page.wait_for_timeout(1000)
            link.evaluate(_CLICK)
            paint_times.append(page.evaluate(_SHOWN))
            complete.append(page.evaluate(_COMPLETE))
            browser.close()
    say(name, "cold server, choosing the graph to painted", paint_times)
    say(name, "cold server, choosing the graph to painted with times", complete)


def in_the_browser(folder: str, names: list[str], repeats: int, parts: list[str]) -> None:
    with served(ROOT / "app.py", folder) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        for name in names:
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            measure(page, server.address, name, repeats, parts)
            page.close()
        browser.close()


def measure(page: Page, address: str, name: str, repeats: int, parts: list[str]) -> None:
    url = f"{address}/graph?experiment={name}&run="
    for run in ("other", "graph"):  # The server reads and matches the traces once.
        first = timed(lambda run=run: open_page(page, url + run))
        print(f"{name:>24}  first visit of run {run}: {first:.0f} ms", flush=True)
    page.get_by_text("Longest nodes").wait_for()
    canvas = page.locator(".dag canvas")
    if "open" in parts:
        open_times = [timed(lambda: open_page(page, f"{url}graph")) for _ in range(repeats)]
        say(name, "new tab to painted", open_times)
    if "choose" in parts:
        say(name, "choosing the other run to painted", _chosen(page, repeats))
    if "switch" in parts:
        say(name, "page switch to painted", _switched(page, repeats))
    page.wait_for_timeout(600)
    if "unfold" in parts:
        unfold_times = [canvas.evaluate(_UNFOLD) for _ in range(repeats)]
        say(name, "unfold, click to first frame", [one[0] for one in unfold_times if one])
        say(name, "unfold, click to at rest", [one[1] for one in unfold_times if one])
    if "refold" in parts:
        fold_times = []
        for _ in range(repeats):
            fold_times.append(canvas.evaluate(_REFOLD))
            page.wait_for_timeout(500)
        say(name, "folding by module or back, first", fold_times[:1])
        say(name, "folding by module or back, again", fold_times[1:])
    if "card" in parts:
        found = []
        for at in range(repeats):
            found.append(page.evaluate(_CARD, [canvas.element_handle(), at]))
            page.wait_for_timeout(300)
        say(name, "click on a node to its card", [one for one in found if one is not None])
    if "frames" in parts:
        frames: list[float] = sorted(canvas.evaluate(_FRAMES))
        print(
            f"{name:>24}  frame while zooming: median {statistics.median(frames):.1f} ms, "
            f"p95 {frames[int(len(frames) * 0.95)]:.1f} ms, longest {frames[-1]:.1f} ms",
            flush=True,
        )


def _chosen(page: Page, repeats: int) -> list[float]:
    results = []
    for turn in range(repeats):
        run = "other" if turn % 2 == 0 else "graph"
        page.get_by_role("radio", name=run, exact=True).evaluate(_CLICK)
        results.append(page.evaluate(_SHOWN))
        page.wait_for_timeout(400)
    return results


def _switched(page: Page, repeats: int) -> list[float]:
    results = []
    for _ in range(repeats):
        page.get_by_role("link", name="Overview").first.click()
        page.locator(".dag").wait_for(state="detached", timeout=30_000)
        page.wait_for_timeout(800)
        page.get_by_role("link", name="Graph", exact=True).first.evaluate(_CLICK)
        results.append(page.evaluate(_SHOWN))
        page.wait_for_timeout(400)
    return results


def open_page(page: Page, url: str) -> None:
    """Loads the page and waits for the canvas to be painted with boxes."""
    page.goto(url)
    page.locator('.dag canvas[data-boxes]:not([data-boxes=""])').wait_for(timeout=120_000)


def built(build: Callable[[], Any]) -> list[float]:
    """Measure a build as in the server's store, in ms."""
    found = []
    for _ in range(7):
        with COLLECTION.defer():
            found.append(timed(build))
    return found


def timed(action: Callable[[], Any]) -> float:
    """Measure ``action`` in ms."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1e3


def say(name: str, label: str, values: list[float]) -> None:
    print(
        f"{name:>24}  {label}: {statistics.median(values):.0f} ms ({max(values):.0f})", flush=True
    )


if __name__ == "__main__":
    main()
