"""Measures what a visitor waits for, the start of the server and each page change, and what memory
the server keeps.

    python benchmarks/pages.py [--repeats 10] [--sample gpt-train] [--slices 1000000]
        [--parts start pages memory]

Needs playwright and a Chromium; the browser draws without a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from page_figures import Row, cpu_ms, resident_mb, row, show
from playwright.sync_api import Browser, Page, sync_playwright

from tests.chromium import system_chromium
from tests.serving import ROOT, served

APP = ROOT / "app.py"
EMPTY = Path(__file__).parent / "empty_site" / "app.py"
LARGE = Path(__file__).parent / "timeline_site" / "app.py"
SHOWN = {
    "Overview": "article.card",
    "Compare": "table.figures",
    "Graph": ".dag canvas[data-boxes]",
    "Timeline": ".timeline canvas[data-painted]",
    "Memory": ".js-plotly-plot .main-svg",
    "Launch": ".js-plotly-plot .main-svg",
    "Doctor": ".badge, .empty",
    "Export": ".perfetto .row",
}
"""Element that shows that a page is usable."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--sample", default="gpt-train", help="the experiment that pages show")
    parser.add_argument(
        "--slices", type=int, default=0, help="enlarge its traces to this many GPU slices each"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=("start", "pages", "memory"), default=("start", "pages")
    )
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        if "start" in options.parts:
            show("start of the server", started(browser, options.repeats))
        if "pages" in options.parts:
            rows = changed(browser, options.sample, options.repeats, options.slices)
            show(f"page changes, {options.sample}", rows)
        if "memory" in options.parts:
            show("resident memory of the server", kept(browser, options.repeats))


def started(browser: Browser, repeats: int) -> list[Row]:
    """Measure from process start to the first answer and to the first page, in a tab opened before
    and in one opened then, with empty caches; the same for an app of one element."""
    ways = [(app, opens_first) for app in (EMPTY, APP) for opens_first in (True, False)]
    times: dict[tuple[Path, bool], list[tuple[float, ...]]] = {way: [] for way in ways}
    for turn in range(repeats + 1):
        for way in ways:
            start_times = _start(browser, *way)
            if turn:
                times[way].append(start_times)
    rows = []
    for name, app in (("an empty app", EMPTY), ("the dashboard", APP)):
        answers, pages, cpu_times = zip(*times[app, True], strict=True)
        rows += [
            row(f"{name}: process start -> first answer", list(answers)),
            row("   ... -> usable first page, tab open before", list(pages)),
            row(
                "   ... -> the same, tab opened then",
                [start_times[1] for start_times in times[app, False]],
            ),
            row("   for which the server worked (CPU time)", list(cpu_times)),
        ]
    return rows


def _start(browser: Browser, app: Path, opens_first: bool) -> tuple[float, float, float]:
    """ms to the first answer, to a usable page, and of the server's work until then."""
    # A context of its own is a browser that has nothing in its cache.
    page = _tab(browser) if opens_first else None
    if page:
        page.wait_for_timeout(500)
    start_time = time.time()
    # Installed, modules are compiled; here the first start compiles them, and is not counted.
    with served(app, "sample_traces", environment={"PYTHONDONTWRITEBYTECODE": ""}) as server:
        page = page or _tab(browser)
        page.goto(server.address, wait_until="commit")
        # A function: the pages' content policy lets no text be evaluated.
        page.wait_for_function("() => window.__usable", timeout=60_000)
        usable = page.evaluate("performance.timeOrigin + window.__usable") - start_time * 1000
        worked = cpu_ms(server.pid)
        page.context.close()
    print(f"{app.parent.name}: {server.start_ms:.0f} ms, page {usable:.0f} ms", file=sys.stderr)
    return server.start_ms, usable, worked


def _tab(browser: Browser) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
    page.add_init_script(_USABLE)
    return page


_USABLE = """
{
  // The first card, or the only element of the empty app, and the frame in which it is seen.
  const look = () => {
    const last = document.querySelector("article.card") ?? document.querySelector(".own");
    if (!last?.getClientRects().length) requestAnimationFrame(look);
    else requestAnimationFrame(() => requestAnimationFrame((now) => { window.__usable = now }));
  };
  requestAnimationFrame(look);
}
"""


def changed(browser: Browser, sample: str, repeats: int, slices: int) -> list[Row]:
    """Measure from a click on a link to a page seen before."""
    times: dict[str, list[float]] = {name: [] for name in SHOWN}
    large = {
        "TIMELINE_SAMPLE": str(ROOT / "sample_traces" / sample),
        "TIMELINE_SLICES": str(slices),
        "TIMELINE_TRACE": "recorded",
        "GRAPHVIZ_DASH_PATHS": str(ROOT / "sample_traces"),
    }
    site = served(LARGE, environment=large) if slices else served(APP, "sample_traces")
    with site as server:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(f"{server.address}/compare?experiment={sample}")
        page.locator(SHOWN["Compare"]).first.wait_for(timeout=120_000)
        for turn in range(repeats + 1):
            for name in SHOWN:
                change_ms = _change(page, name)
                if turn:
                    times[name].append(change_ms)
    return [row(f"-> {name}", page_ms) for name, page_ms in times.items()]


def kept(browser: Browser, repeats: int) -> list[Row]:
    """Measure server memory after the Overview has read all traces, and after all other pages of
    two samples; a new server and browser each time."""
    read: list[float] = []
    open_bytes: list[float] = []
    for _ in range(repeats):
        with served(APP, "sample_traces") as server:
            page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
            page.goto(server.address)
            page.locator("article.card").first.wait_for()
            page.wait_for_timeout(_SETTLED_MS)
            # Its script ends with the last trace.
            page.locator("[data-test-script-state='notRunning']").wait_for(timeout=120_000)
            page.wait_for_timeout(_SETTLED_MS)
            read.append(resident_mb(server.pid))
            for sample in _KEPT:
                for name in [*SHOWN][1:]:
                    page.goto(f"{server.address}/{name.lower()}?experiment={sample}")
                    page.locator(SHOWN[name]).first.wait_for(timeout=60_000)
                    page.wait_for_timeout(_SETTLED_MS)
            open_bytes.append(resident_mb(server.pid))
            page.context.close()
    return [
        _megabytes("the Overview's traces read", read),
        _megabytes("every page of two", open_bytes),
    ]


_KEPT: Final = ("gpt-train", "transformer-train")
_SETTLED_MS: Final = 1_500
"""Until a page has asked for all of its views."""


def _megabytes(label: str, sizes: list[float]) -> Row:
    return label, f"{statistics.median(sizes):.0f} MB", f"{max(sizes):.0f} MB"


def _change(page: Page, name: str) -> float:
    link = page.get_by_role("link", name=name, exact=True).first
    change_ms: float = link.evaluate(_CLICK, SHOWN[name])
    page.wait_for_timeout(500)
    return change_ms


_CLICK = """
async (link, shown) => {
  const before = document.querySelector(shown);
  const begun = performance.now();
  link.click();
  for (;;) {
    // Components live in shadow roots, which selectors do not reach into.
    await new Promise(requestAnimationFrame);
    const roots = [document, ...[...document.querySelectorAll("*")].map((e) => e.shadowRoot)];
    const found = roots.filter(Boolean).map((r) => r.querySelector(shown)).find((e) => e);
    const seen = found && found !== before && found.getClientRects().length;
    if (seen) return performance.now() - begun;
    if (performance.now() - begun > 20000) return NaN;
  }
}
"""


if __name__ == "__main__":
    main()
