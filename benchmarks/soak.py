"""Browsers that go from page to page for as long as you like, while files are uploaded, most of
them hostile.

    python -m benchmarks.soak [--minutes 60] [--browsers 8] [--uploads 2] [--turn 90]

Serves the samples and opens each page once, which fills the server's caches. Then ``--browsers``
browsers (contexts of one Chromium) go to another page every ``--turn`` seconds, sometimes in a new
tab, and further browsers upload ``--uploads`` files a minute. Counts failures in the browsers that
upload nothing: errors on a page, responses from 500 up, pages that need over a minute. Prints
memory, descriptors, threads, processes and temporary files of the server and the times of page
changes, every five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import itertools
import json
import random
import statistics
import sys
import time
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
from playwright.async_api import Browser, ConsoleMessage, Page, Response, async_playwright
from playwright.async_api import Error as BrowserError

from tests.attack.server import ROOT, Dashboard, dashboard
from tests.attack.visitor import Visitor
from tests.chromium import system_chromium
from tests.ingest.hostile import hostile_files

SHOWN: Final = {
    "": ".own",
    "compare": "table.figures",
    "graph": ".dag canvas[data-boxes], .empty",
    "timeline": ".timeline canvas[data-painted], .empty",
    "memory": ".js-plotly-plot .main-svg, .empty, table.figures",
    "launch": ".js-plotly-plot .main-svg",
    "doctor": ".badge, .empty",
    "graphs": ".js-plotly-plot .main-svg, .empty",
    "compile": ".program [role=treeitem], .empty",
    "ranks": ".js-plotly-plot .main-svg, .empty",
    "export": ".perfetto .row, .empty",
}
"""Element that shows that a page is ready."""
EXPERIMENTS: Final = sorted(
    path.name for path in (ROOT / "sample_traces").iterdir() if any(path.glob("*/manifest.json"))
)
PATIENCE_MS: Final = 60_000
_LOOK_S: Final = 15.0
"""Seconds that a visitor looks at an upload."""
_NEW_TAB: Final = 0.1
"""Share of visits in a new tab."""
_SAMPLE_S: Final = 30.0
# A deep link makes Streamlit's front end look for files below the page's path first.
_DEEP_LINK: Final = "Failed to load resource: the server responded with a status of 404"


@dataclass
class Figures:
    visits: int = 0
    times_ms: list[float] = field(default_factory=list)
    """Time of each visit until the page was ready."""
    errors: list[str] = field(default_factory=list)
    """Failures of visitors without uploads."""
    uploads: Counter[str] = field(default_factory=Counter)
    """Results of uploads, by file."""
    samples: list[dict[str, float]] = field(default_factory=list)
    """The server over time."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--browsers", type=int, default=8)
    parser.add_argument("--uploads", type=float, default=2, help="a minute")
    parser.add_argument("--turn", type=float, default=90, help="seconds from page to page")
    parser.add_argument("--output", type=Path, help="also writes all figures there as JSON")
    options = parser.parse_args()
    figures = Figures()
    with dashboard(EXPERIMENTS) as server:
        _open_all(server)
        asyncio.run(_soak(server, options, figures))
        figures.samples.append(_sample(server, options.minutes))
        at_end = server.left_behind
    print(_table(figures))
    print(f"\nIn the temporary folder: {len(at_end)} before the end; uploads: ", end="")
    print(", ".join(f"{problem} × {count}" for problem, count in sorted(figures.uploads.items())))
    for error in figures.errors[:50]:
        print("error:", error)
    if options.output:
        options.output.write_text(json.dumps(vars(figures), indent=1), encoding="utf-8")
    sys.exit(1 if figures.errors else 0)


def _open_all(server: Dashboard) -> None:
    with Visitor(server.address) as visitor:
        visitor.open()
    for name, experiment in itertools.product(filter(None, SHOWN), EXPERIMENTS):
        with Visitor(server.address) as visitor:
            visitor.open(name, f"experiment={experiment}")


async def _soak(server: Dashboard, options: argparse.Namespace, figures: Figures) -> None:
    end = time.monotonic() + options.minutes * 60
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        await asyncio.gather(
            *(
                _browse(browser, server, seed, options.turn, end, figures)
                for seed in range(options.browsers)
            ),
            _upload(browser, server, options.uploads, end, figures),
            _watch(server, end, figures),
        )
        await browser.close()


async def _browse(
    browser: Browser, server: Dashboard, seed: int, turn_s: float, end: float, figures: Figures
) -> None:
    chance = random.Random(seed)
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    page = await _tab(context.new_page, figures)
    await asyncio.sleep(chance.uniform(0, turn_s))
    while time.monotonic() < end:
        name = chance.choice(list(SHOWN))
        experiment = chance.choice(EXPERIMENTS)
        if chance.random() < _NEW_TAB:
            await page.close()
            page = await _tab(context.new_page, figures)
        await _visit(page, server, name, experiment, figures)
        await asyncio.sleep(chance.uniform(0.5, 1.5) * turn_s)
    await context.close()


async def _tab(new_page, figures: Figures) -> Page:  # type: ignore[no-untyped-def]
    page: Page = await new_page()

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_DEEP_LINK):
            figures.errors.append(f"{page.url}: console: {message.text[:300]}")

    def answered(response: Response) -> None:
        if response.status >= 500:
            figures.errors.append(f"{response.url}: {response.status}")

    page.on("pageerror", lambda error: figures.errors.append(f"{page.url}: {str(error)[:300]}"))
    page.on("console", heard)
    page.on("response", answered)
    return page


async def _visit(
    page: Page, server: Dashboard, name: str, experiment: str, figures: Figures
) -> None:
    query = f"?experiment={experiment}" if name else ""
    start_time = time.monotonic()
    try:
        await page.goto(f"{server.address}/{name}{query}", timeout=PATIENCE_MS)
        await page.locator(SHOWN[name]).first.wait_for(timeout=PATIENCE_MS)
        if await page.locator('[data-testid="stException"]').count():
            figures.errors.append(f"{page.url}: an exception on the page")
        figures.times_ms.append((time.monotonic() - start_time) * 1000)
    except BrowserError as error:
        figures.errors.append(f"{name} of {experiment}: {str(error).splitlines()[0]}")
    figures.visits += 1


async def _upload(
    browser: Browser, server: Dashboard, rate: float, end: float, figures: Figures
) -> None:
    """A new browser for each upload; several may still wait for theirs."""
    chance = random.Random(0)
    pending: set[asyncio.Task[None]] = set()
    while time.monotonic() + 60 < end:
        name, content = chance.choice([*hostile_files().items(), ("sync-in-step.zip", _packed())])
        task = asyncio.create_task(_upload_once(browser, server, name, content, figures))
        pending.add(task)
        task.add_done_callback(pending.discard)
        await asyncio.sleep(60 / rate)
    await asyncio.gather(*pending)


async def _upload_once(
    browser: Browser, server: Dashboard, name: str, content: bytes, figures: Figures
) -> None:
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    try:
        page = await context.new_page()
        await page.goto(server.address, timeout=PATIENCE_MS)
        await page.get_by_test_id("stPopoverButton").filter(has_text="Upload").click()
        files = [{"name": name, "mimeType": "application/octet-stream", "buffer": content}]
        await page.locator('input[type="file"]').set_input_files(files=files)  # type: ignore[arg-type]
        outcome = page.get_by_text("File cannot be opened").or_(page.get_by_text("Opened as"))
        await outcome.first.wait_for(timeout=4 * PATIENCE_MS)
        opened = await page.get_by_text("Opened as").count()
        figures.uploads[f"{name}: {'opened' if opened else 'refused'}"] += 1
        if opened:
            await page.get_by_role("link", name="Open", exact=True).click()
            await asyncio.sleep(_LOOK_S)
    except BrowserError as error:
        # What happens to who uploads such files is no error; that it is told is what is wanted.
        figures.uploads[f"{name}: {str(error).splitlines()[0][:80]}"] += 1
    finally:
        await context.close()


def _packed() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        folder = ROOT / "sample_traces" / "sync-in-step"
        for file in folder.rglob("*"):
            archive.write(file, Path("uploaded") / file.relative_to(folder))
    return content.getvalue()


async def _watch(server: Dashboard, end: float, figures: Figures) -> None:
    start_time, report_count = time.monotonic(), 0
    while time.monotonic() < end:
        sample = await asyncio.to_thread(_sample, server, (time.monotonic() - start_time) / 60)
        figures.samples.append(sample)
        print(json.dumps(sample), figures.errors[report_count:], file=sys.stderr, flush=True)
        report_count = len(figures.errors)
        await asyncio.sleep(_SAMPLE_S)


def _sample(served: Dashboard, minute: float) -> dict[str, float]:
    server = served.server
    start_time = time.monotonic()
    responses = served.answers(60)
    health_ms = (time.monotonic() - start_time) * 1000
    children = [child for child in server.children(recursive=True) if _lives(child)]
    files = [served.temporary / path for path in served.left_behind]
    return {
        "minute": round(minute, 1),
        "answers": responses,
        "health_ms": round(health_ms, 1),
        "rss_mb": round(server.memory_info().rss / 1e6, 1),
        "descriptors": server.num_fds(),
        "threads": server.num_threads(),
        "readers": len(children),
        "temporary_mb": round(sum(_size(path) for path in files) / 1e6, 1),
    }


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _table(figures: Figures) -> str:
    lines = [
        "| minute | memory, MB | descriptors | threads | readers | temporary, MB | health, ms |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    names = ("rss_mb", "descriptors", "threads", "readers", "temporary_mb", "health_ms")
    step = max(len(figures.samples) // 13, 1)
    for sample in [*figures.samples[::step], figures.samples[-1]]:
        row_text = " | ".join(f"{sample[name]:g}" for name in names)
        lines.append(f"| {sample['minute']:g} | {row_text} |")
    times = sorted(figures.times_ms) or [0.0]
    lines.append(
        f"\n{figures.visits} page visits, {sum(figures.uploads.values())} uploads, "
        f"{len(figures.errors)} errors of the others; a page was there after "
        f"{statistics.median(times):.0f} ms (median), "
        f"{times[int(len(times) * 0.95)]:.0f} ms (95th percentile), {times[-1]:.0f} ms (longest)"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
