"""Thousands of experiments: time to the first cards, to a search and to a listing, and memory.

    python -m benchmarks.many_experiments FOLDER [--count 5000] [--parts ls overview] [--repeats 3]

Fills FOLDER, unless it exists, with copies of small samples. Each copy has its own name, date,
description and step times; traces and graphs are hard links. Then measures:

- ``ls``: the listing of all experiments, first with an empty catalogue
- ``overview``: a new server each time, from its start to the first cards in headless Chromium, a
  search, another page, and the memory of the server and its helper process. The first visit has no
  cards in the catalogue.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from tests.chromium import CHROMIUM_OPTIONS, system_chromium
from tests.many_experiments import make_experiments
from tests.processes import bind, stop

_COMMAND: Final = (sys.executable, "-m", "graphviz_dash.app.cli.main")
# Playwright polls up to 1 s apart, so the page itself notes the time of the first frame after
# each change.
_WATCH: Final = """
(() => {
  const notes = window.notes = {}
  const note = (name, holds) => {
    if (name in notes || !holds()) return
    notes[name] = null
    requestAnimationFrame(() => setTimeout(() => { notes[name] = Date.now() / 1000 }))
  }
  const count = (selector) => document.querySelectorAll(selector).length
  window.begin = (name) => { delete notes[name]; window.wanted = name }
  const noteStart = () => { window.started = Date.now() / 1000 }
  for (const event of ["keydown", "mousedown"]) addEventListener(event, noteStart, true)
  const look = () => {
    note("names", () => count("article.card") > 3)
    note("cards", () => count("article.card:not(.unread)") > 3)
    note("pager", () => count(".pager") > 0)
    if (window.wanted === "search") note("search", () => count("article.card") === 1)
    if (window.wanted === "next")
      note("next", () => document.querySelector(".pager")?.textContent.includes("51 to 100 of"))
  }
  new MutationObserver(look).observe(document, {subtree: true, childList: true})
})()
"""


def list_all(folder: Path, cache: Path) -> float:
    """Return the seconds of one ``graphviz-dash ls``."""
    start_s = time.monotonic()
    subprocess.run(
        [*_COMMAND, "ls", str(folder)],
        env=os.environ | {"GRAPHVIZ_DASH_CACHE": str(cache)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - start_s


class Visit(msgspec.Struct, frozen=True):
    """A visit of the overview with a new server, in seconds and bytes."""

    first_names_s: float
    """From the start of the server to the names of the first four experiments."""
    first_cards_s: float
    """To their cards."""
    all_rows_s: float
    """To all rows of the first page, without data of the traces."""
    search_s: float
    """From Enter in the search field to its result; infinite if nothing was found."""
    next_page_s: float
    """From the click on Next to its first row."""
    server_bytes: int
    """Resident memory of the server."""
    helper_bytes: int
    """Resident memory of its processes."""


def visit(browser: Browser, folder: Path, cache: Path, *, find: str) -> Visit:
    """Open the overview of ``folder`` in a tab, search for ``find`` and turn the page."""
    port = find_port()
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.add_init_script(_WATCH)
    start_s = time.time()
    command = subprocess.Popen(
        bind([*_COMMAND, "serve", folder, "--port", str(port)]),
        env=os.environ | {"GRAPHVIZ_DASH_CACHE": str(cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        while not is_ready(f"{address}/_stcore/health"):
            time.sleep(0.02)
        page.goto(address, wait_until="commit")
        first_names_s = _wait_for(page, "names") - start_s
        first_cards_s = _wait_for(page, "cards") - start_s
        all_rows_s = _wait_for(page, "pager") - start_s
        page.evaluate("begin('next')")
        page.get_by_role("link", name="Next", exact=True).click()
        next_page_s = _wait_for(page, "next") - page.evaluate("started")
        # Cards of the traces are read meanwhile.
        page.wait_for_timeout(5_000)
        field = page.get_by_label("Search experiments")
        field.fill(find)
        page.evaluate("begin('search')")
        field.press("Enter")
        search_s = _wait_for(page, "search") - page.evaluate("started")
        (server, *_) = psutil.Process(command.pid).children()
        return Visit(
            first_names_s,
            first_cards_s,
            all_rows_s,
            search_s,
            next_page_s,
            server.memory_info().rss,
            sum(child.memory_info().rss for child in server.children(recursive=True)),
        )
    finally:
        page.close()
        stop(command)


def _wait_for(page: Page, note: str) -> float:
    """Wait for a note of the page and return its time in seconds since 1970."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        if (noted_s := page.evaluate(f"notes.{note}")) is not None:
            return float(noted_s)
        time.sleep(0.05)
    raise TimeoutError(f"The page shows no {note} within 60 s")


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=1):
            return True
    except OSError:
        return False


def _format_row(name: str, values: Sequence[float], goal: str) -> str:
    median, maximum = statistics.median(values), max(values)
    return f"| {name} | {median:.2f} s ({maximum:.2f}) | {goal} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cache", type=Path, help="folder of the catalogue; default: a new one")
    parser.add_argument(
        "--parts", nargs="+", choices=("ls", "overview"), default=("ls", "overview")
    )
    options = parser.parse_args()
    if not options.folder.exists():
        make_experiments(options.folder, options.count)
    with tempfile.TemporaryDirectory() as scratch:
        cache = options.cache or Path(scratch)
        print(f"| {options.count:,} experiments | median (longest) | goal |\n| --- | --- | --- |")
        if "ls" in options.parts:
            first_s = list_all(options.folder, cache)
            print(_format_row("ls, first time", [first_s], ""), flush=True)
            times = [list_all(options.folder, cache) for _ in range(options.repeats)]
            print(_format_row("ls", times, "2 s"), flush=True)
        if "overview" in options.parts:
            _measure_overview(options.folder, cache, options.count, options.repeats)


def _measure_overview(folder: Path, cache: Path, count: int, repeats: int) -> None:
    # A search of the first visit finds only names, because most experiments are not read yet.
    name, description = f"experiment-{count // 2:05d}", f"trial {count // 2} of"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=system_chromium(), args=list(CHROMIUM_OPTIONS)
        )
        _print_visits("first visit: ", [visit(browser, folder, cache, find=name)])
        _complete_catalogue(folder, cache)
        visits = [visit(browser, folder, cache, find=description) for _ in range(repeats)]
        _print_visits("", visits)
        browser.close()


def _complete_catalogue(folder: Path, cache: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "graphviz_dash.app.hosting.cards_process", str(folder)],
        env=os.environ | {"GRAPHVIZ_DASH_CACHE": str(cache)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # It lowers the priority of its session.
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if b'"type":"pass"' in line:
            break
    process.kill()
    process.wait()


def _print_visits(prefix: str, visits: Sequence[Visit]) -> None:
    rows = {
        "first names": ([visit_result.first_names_s for visit_result in visits], "2 s"),
        "first cards": ([visit_result.first_cards_s for visit_result in visits], "2 s"),
        "all rows of the page": ([visit_result.all_rows_s for visit_result in visits], ""),
        "search": ([visit_result.search_s for visit_result in visits], "0.3 s"),
        "next page": ([visit_result.next_page_s for visit_result in visits], ""),
    }
    for name, (values, goal) in rows.items():
        print(_format_row(prefix + name, values, goal))
    server = max(visit_result.server_bytes for visit_result in visits) / 1e6
    helper = max(visit_result.helper_bytes for visit_result in visits) / 1e6
    print(f"| {prefix}server, its helper | {server:.0f} MB, {helper:.0f} MB | 600 MB |", flush=True)


if __name__ == "__main__":
    main()
