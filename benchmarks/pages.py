"""Measures what a visitor waits for: the start of the server, and each page change.

    python benchmarks/pages.py [--repeats 10] [--sample gpt-train]

Prints a table of medians and longest; the numbers of benchmarks/README.md come from it. Needs
playwright and a Chromium; the browser draws without a GPU.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from page_figures import Row, cpu_ms, row, show
from playwright.sync_api import Browser, Page, sync_playwright

from tests.serving import ROOT, served

SHOWN = {
    "Overview": ".hero",
    "Compare": "table.figures",
    "Graph": ".dag canvas[data-boxes]",
    "Timeline": ".timeline canvas[data-painted]",
    "Memory": ".js-plotly-plot .main-svg",
    "Launch": ".js-plotly-plot .main-svg",
    "Doctor": ".badge, .empty",
    "Export": ".perfetto .row",
}
"""What of each page shows that it is usable."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--sample", default="gpt-train", help="the experiment that pages show")
    parser.add_argument(
        "--parts", nargs="+", choices=("start", "pages"), default=("start", "pages")
    )
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        if "start" in options.parts:
            show("start of the server", started(browser, options.repeats))
        if "pages" in options.parts:
            rows = changed(browser, options.sample, options.repeats)
            show(f"page changes, {options.sample}", rows)


def started(browser: Browser, repeats: int) -> list[Row]:
    """From the start of the process to its first answer, and to the first page in a new browser."""
    answers, pages, worked = [], [], []
    for _ in range(repeats):
        begun = time.perf_counter()
        with served(ROOT / "app.py", "sample_traces") as server:
            context = browser.new_context(viewport={"width": 1280, "height": 860})
            page = context.new_page()
            page.goto(server.address)
            page.locator(SHOWN["Overview"]).first.wait_for()
            pages.append((time.perf_counter() - begun) * 1000)
            answers.append(server.start_ms)
            worked.append(cpu_ms(server.pid))
            print(f"answer {answers[-1]:.0f} ms, page {pages[-1]:.0f} ms", file=sys.stderr)
            context.close()
    return [
        row("process start -> first answer", answers),
        row("process start -> Overview usable, new browser", pages),
        row("   ... of which the server worked (CPU time)", worked),
    ]


def changed(browser: Browser, sample: str, repeats: int) -> list[Row]:
    """From a click on a page's link to the page, everything having been seen before."""
    times: dict[str, list[float]] = {name: [] for name in SHOWN}
    with served(ROOT / "app.py", "sample_traces") as server:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(f"{server.address}/compare?experiment={sample}")
        page.locator(SHOWN["Compare"]).first.wait_for()
        for turn in range(repeats + 1):
            for name in SHOWN:
                took = _change(page, name)
                if turn:
                    times[name].append(took)
    return [row(f"-> {name}", each) for name, each in times.items()]


def _change(page: Page, name: str) -> float:
    link = page.get_by_role("link", name=name, exact=True).first
    took: float = link.evaluate(_CLICK, SHOWN[name])
    page.wait_for_timeout(500)
    return took


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
