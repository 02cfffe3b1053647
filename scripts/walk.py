"""Visit every page of every sample in both themes at six widths: faults, pictures, amount of text.

Needs a dashboard that serves the samples:

graphviz-dash serve sample_traces --port 8601 &
python -m scripts.walk http://127.0.0.1:8601 /tmp/walk [--experiments NAME...] [--pages NAME...]
python -m scripts.walk --summary /tmp/walk

Results are appended to visits.jsonl in the folder. With --resume, the walk skips the pages that are
in it without a fault. Exits with 1 after a fault.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Response, sync_playwright
from playwright.sync_api import Error as PageError

from graphviz_dash.ui.page.navigation import NAMES
from tests.chromium import CHROMIUM_OPTIONS, PATIENCE_MS, system_chromium
from tests.samples import SAMPLES

WIDTHS: Final = (1280, 360, 800, 1440, 1920, 2560)
"""Window widths; amounts are measured at the first one."""
HEIGHT: Final = 860
THEMES: Final = ("light", "dark")
PICTURES: Final = ("none", "first", "whole")
SHARED_PAGES: Final = ("overview",)
"""Pages that are equal for all experiments."""

_IDLE: Final = '[data-testid="stApp"][data-test-script-state="notRunning"]'
_MAIN: Final = '[data-testid="stMainBlockContainer"]'
_SETTLE_MS: Final = 1_000
_RESIZE_MS: Final = 180
_THEME_MS: Final = 600
"""Time to draw the page in the other theme."""
_QUALITY: Final = 75
"""Quality of JPEG pictures, which Chromium writes several times faster than PNG."""
_SMALLEST_TEXT: Final = 11
"""Smallest text of a drawing at its first view, in pixels."""
_TALLEST: Final = 9_000
_LAST_BAD: Final = 400
_FIGURE: Final = re.compile(r"\d")
_RESULTS: Final = "visits.jsonl"

_SHIFTS: Final = """
window.shifts = []
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) {
    if (entry.hadRecentInput) continue
    const names = entry.sources.map(({node}) => {
      const element = node?.nodeType === 1 ? node : node?.parentElement
      return element ? (element.className?.baseVal ?? element.className) || element.tagName : ""
    })
    window.shifts.push([entry.value, names.slice(0, 3).join(" + ").slice(0, 120)])
  }
}).observe({type: "layout-shift", buffered: true})
"""

_DRAWN_TEXT: Final = """
window.smallestText = null
const fillText = CanvasRenderingContext2D.prototype.fillText
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  const scale = this.getTransform().d / devicePixelRatio
  const size = Number(/([\\d.]+)px/.exec(this.font)?.[1]) * scale
  const isDrawing = this.canvas.closest?.(".dag, .timeline")
  if (isDrawing && size < (window.smallestText?.[0] ?? Infinity)) window.smallestText = [size, text]
  return fillText.call(this, text, ...place)
}
"""

_FAULTS: Final = """
() => {
  const faults = [], main = document.querySelector('[data-testid="stMain"]')
  if (document.querySelector('[data-testid="stException"]')) faults.push("exception")
  if (document.scrollingElement.scrollWidth > innerWidth + 1) faults.push("window scrolls sideways")
  if (main.scrollWidth > main.clientWidth + 1) faults.push("page scrolls sideways")
  const name = element => element.textContent.trim().slice(0, 50)
  const isVisible = element => element.checkVisibility({visibilityProperty: true})
  const heads = 'h1, h2, h3, th, nav a, .tile > *, .badge, summary, [role="tab"], .sentence'
  for (const head of document.querySelectorAll(heads)) {
    if (!isVisible(head) || head.clientWidth < 2) continue
    const {overflowX, whiteSpace} = getComputedStyle(head)
    const isCut = head.scrollWidth > head.clientWidth + 1 && overflowX !== "visible"
    if (isCut) faults.push(`cut: ${name(head)}`)
  }
  for (const chart of document.querySelectorAll(".js-plotly-plot")) {
    if (!isVisible(chart)) continue
    const frame = chart.getBoundingClientRect()
    for (const text of chart.querySelectorAll(".main-svg text")) {
      const box = text.getBoundingClientRect()
      if (box.width < 2 || text.closest("[opacity='0'], .hoverlayer")) continue
      if (box.left < frame.left - 2 || box.right > frame.right + 2) {
        faults.push(`cut in a chart: ${name(text)}`)
      }
    }
  }
  return [...new Set(faults)]
}
"""

_SCROLLING_TABLES: Final = """
() => [...document.querySelectorAll("table")].filter(table => table.checkVisibility()
  && table.scrollWidth > table.parentElement.clientWidth + 1).map(table => table.className)
"""


class Amount(Struct, frozen=True):
    """Amount of text on a page before anything is opened."""

    words: int
    """Number of visible words, figures included, without the navigation."""
    figures: int
    """Number of words with a digit."""
    screens: float
    """Height of the page in screens of HEIGHT."""


class Visit(Struct, frozen=True):
    """Findings on one page of one experiment."""

    page: str
    experiment: str
    amount: Amount
    shift: float
    """Cumulative layout shift while the page loaded."""
    largest_shift: str
    """Classes of the elements of the largest layout shift."""
    faults: dict[str, list[str]]
    """Faults by theme and width; those of the whole visit under "load"."""
    scrolling_tables: dict[str, list[str]]
    """Classes of tables that scroll sideways, by width."""
    is_empty: bool = False
    """True if the page has nothing to say about the experiment."""


def count_words(text: str) -> tuple[int, int]:
    """Count words and, among them, figures."""
    words = [word for word in text.split() if any(letter.isalnum() for letter in word)]
    return len(words), sum(bool(_FIGURE.search(word)) for word in words)


def measure_amount(page: Page) -> Amount:
    """Measure the text of a page; tables drawn on canvases count by height only."""
    words, figures = count_words(page.locator(_MAIN).inner_text())
    height = page.locator(_MAIN).evaluate("main => main.scrollHeight")
    return Amount(words, figures, round(height / HEIGHT, 1))


def build_address(name: str, experiment: str) -> str:
    """Build the address of a page below that of the dashboard."""
    path = "" if name == "overview" else name
    return path if name in SHARED_PAGES else f"{path}?experiment={experiment}"


class Walk(Struct):
    """A walk over pages of a dashboard."""

    context: BrowserContext
    """Context of all visits, so that scripts are loaded and compiled once."""
    address: str
    folder: Path
    widths: tuple[int, ...]
    themes: tuple[str, ...]
    pictures: str
    """Pictures to take: of the first screen, of the whole page too, or none."""

    def visit_safely(self, name: str, experiment: str) -> Visit:
        """Visit one page; a page that does not become ready is a fault."""
        try:
            return self.visit(name, experiment)
        except PageError as error:
            faults = {"load": [str(error).splitlines()[0]]}
            return Visit(name, experiment, Amount(0, 0, 0.0), 0.0, "", faults, {}, is_empty=True)

    def visit(self, name: str, experiment: str) -> Visit:
        """Visit one page in each theme at each width."""
        page = self.context.new_page()
        page.set_viewport_size({"width": self.widths[0], "height": HEIGHT})
        page.emulate_media(color_scheme=_get_scheme(self.themes[0]))
        load_faults: list[str] = []
        _record_errors(page, load_faults)
        page.add_init_script(_SHIFTS + _DRAWN_TEXT)
        page.goto(f"{self.address}/{build_address(name, experiment)}")
        page.locator(f"{_MAIN} h1, {_MAIN} canvas, {_MAIN} h2").first.wait_for(timeout=PATIENCE_MS)
        page.locator(_IDLE).wait_for(timeout=PATIENCE_MS)
        page.wait_for_timeout(_SETTLE_MS)
        shifts: list[tuple[float, str]] = page.evaluate("window.shifts")
        smallest = page.evaluate("window.smallestText")
        if smallest is not None and smallest[0] < _SMALLEST_TEXT:
            load_faults.append(f"text of {smallest[0]:.1f} px: {smallest[1]}")
        amount = measure_amount(page)
        is_empty = page.locator(f"{_MAIN} .empty").count() > 0
        faults: dict[str, list[str]] = {}
        tables: dict[str, list[str]] = {}
        for number, theme in enumerate(self.themes):
            page.emulate_media(color_scheme=_get_scheme(theme))
            if number:
                page.wait_for_timeout(_THEME_MS)
            # Each theme begins at the width of the last one.
            for width in self.widths[:: -1 if number % 2 else 1]:
                page.set_viewport_size({"width": width, "height": HEIGHT})
                page.wait_for_timeout(_RESIZE_MS)
                page.locator(_IDLE).wait_for(timeout=PATIENCE_MS)
                if problems := page.evaluate(_FAULTS):
                    faults[f"{theme} {width}"] = problems
                if scrolling := page.evaluate(_SCROLLING_TABLES):
                    tables[str(width)] = scrolling
                self._take_pictures(page, f"{name}-{experiment}-{width}-{theme}")
        page.close()
        if load_faults:
            faults["load"] = load_faults
        return Visit(
            name,
            experiment,
            amount,
            round(sum(value for value, _ in shifts), 3),
            max(shifts)[1] if shifts else "",
            faults,
            tables,
            is_empty,
        )

    def _take_pictures(self, page: Page, title: str) -> None:
        if self.pictures == "none":
            return
        page.screenshot(path=self.folder / f"{title}.jpg", type="jpeg", quality=_QUALITY)
        if self.pictures == "first":
            return
        size = page.viewport_size
        height = page.locator('[data-testid="stMain"]').evaluate("main => main.scrollHeight")
        if size is None or height <= HEIGHT:
            return
        page.set_viewport_size({"width": size["width"], "height": min(height, _TALLEST)})
        page.wait_for_timeout(_RESIZE_MS)
        path = self.folder / f"{title}-whole.jpg"
        page.screenshot(path=path, type="jpeg", quality=_QUALITY)
        page.set_viewport_size(size)


def _get_scheme(theme: str) -> Literal["light", "dark"]:
    return "dark" if theme == "dark" else "light"


def _record_errors(page: Page, faults: list[str]) -> None:
    """Append console errors, exceptions and failed requests of ``page`` to ``faults``."""

    def record_message(message: ConsoleMessage) -> None:
        if message.type == "error":
            faults.append(message.text)

    def record_response(response: Response) -> None:
        if response.status >= _LAST_BAD:
            faults.append(f"{response.status} {response.url}")

    page.on("console", record_message)
    page.on("response", record_response)
    page.on("pageerror", lambda error: faults.append(str(error)))


def summarize(visits: list[Visit]) -> str:
    """Summarize visits: a table by page, then all faults.

    Amounts are medians over the experiments about which a page has something to say, shifts are
    the largest.
    """
    lines = [f"{'page':<10}{'visits':>7}{'words':>7}{'figures':>9}{'screens':>9}{'shift':>8}"]
    for name in NAMES:
        page_visits = [visit for visit in visits if visit.page == name]
        if not page_visits:
            continue
        with_content = [visit for visit in page_visits if not visit.is_empty] or page_visits
        words, figures, screens = (
            statistics.median(getattr(visit.amount, field) for visit in with_content)
            for field in ("words", "figures", "screens")
        )
        shift = max(visit.shift for visit in page_visits)
        lines.append(
            f"{name:<10}{len(page_visits):>7}{words:>7.0f}{figures:>9.0f}{screens:>9.1f}{shift:>8.3f}"
        )
    lines += [
        f"{visit.page} {visit.experiment}, {place}: {'; '.join(faults)}"
        for visit in visits
        for place, faults in visit.faults.items()
    ]
    return "\n".join(lines)


def read_visits(folder: Path) -> list[Visit]:
    """Read the visits of a folder; a later visit replaces an earlier one."""
    path = folder / _RESULTS
    lines = path.read_bytes().splitlines() if path.exists() else []
    visits = [msgspec.json.decode(line, type=Visit) for line in lines]
    return [*{(visit.page, visit.experiment): visit for visit in visits}.values()]


def main() -> int:
    """Walk and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", nargs="?")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--summary", action="store_true", help="Print earlier results only.")
    parser.add_argument("--resume", action="store_true", help="Skip pages visited without a fault.")
    parser.add_argument("--experiments", nargs="+", help="Default: all samples.")
    parser.add_argument("--pages", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--widths", nargs="+", type=int, default=WIDTHS)
    parser.add_argument("--themes", nargs="+", choices=THEMES, default=THEMES)
    parser.add_argument("--pictures", choices=PICTURES, default="first")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.summary:
        samples = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
        experiments = options.experiments or samples
        previous_visits = read_visits(options.folder) if options.resume else []
        visited_pages = {
            (visit.page, visit.experiment) for visit in previous_visits if not visit.faults
        }
        with sync_playwright() as playwright, (options.folder / _RESULTS).open("ab") as results:
            browser = playwright.chromium.launch(
                executable_path=system_chromium(), args=[*CHROMIUM_OPTIONS]
            )
            context = browser.new_context()
            # The process of the pages ends with its last tab.
            keeper = context.new_page()
            keeper.route("**/*", lambda route: route.fulfill(body=""))
            keeper.goto(options.address)
            walk = Walk(
                context,
                options.address,
                options.folder,
                tuple(options.widths),
                tuple(options.themes),
                options.pictures,
            )
            for name in options.pages:
                for experiment in experiments[:1] if name in SHARED_PAGES else experiments:
                    if (name, experiment) in visited_pages:
                        continue
                    results.write(msgspec.json.encode(walk.visit_safely(name, experiment)) + b"\n")
                    results.flush()
            browser.close()
    visits = read_visits(options.folder)
    print(summarize(visits))
    return int(any(visit.faults for visit in visits))


if __name__ == "__main__":
    sys.exit(main())
