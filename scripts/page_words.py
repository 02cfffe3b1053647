"""Measure the words, figures and screens of every page before anything is opened.

Needs a dashboard that serves the samples:

graphviz-dash serve sample_traces --port 8601 &
python -m scripts.page_words http://127.0.0.1:8601.

Tables drawn on canvases count by height only.
"""

from __future__ import annotations

import argparse
import re
from typing import Final

from msgspec import Struct
from playwright.sync_api import Page, sync_playwright

from tests.chromium import system_chromium

PAGES: Final = {
    "overview": "",
    "compare": "compare?experiment=mlp-train",
    "graphs": "graphs?experiment=recorded-server",
    "graph": "graph?experiment=fork-join",
    "timeline": "timeline?experiment=mlp-train",
    "compile": "compile?experiment=compile-mends",
    "doctor": "doctor?experiment=sync-in-step",
    "memory": "memory?experiment=mlp-train",
    "ranks": "ranks?experiment=tp-transformer",
    "launch": "launch",
    "export": "export?experiment=mlp-train",
}
"""Address by page name."""

WIDTH: Final = 1280
SCREEN_HEIGHT: Final = 860

_IDLE: Final = '[data-testid="stApp"][data-test-script-state="notRunning"]'
_MAIN: Final = '[data-testid="stMainBlockContainer"]'
_SETTLE_MS: Final = 1_500
_FIGURE: Final = re.compile(r"\d")


class Amount(Struct, frozen=True):
    """Amount of text on a page."""

    words: int
    """Number of visible words, figures included, without the navigation."""
    figures: int
    """Number of words with a digit."""
    screens: float
    """Height of the page in screens of SCREEN_HEIGHT."""


def count_words(text: str) -> tuple[int, int]:
    """Count words and, among them, figures."""
    words = [word for word in text.split() if any(letter.isalnum() for letter in word)]
    return len(words), sum(bool(_FIGURE.search(word)) for word in words)


def measure_page(page: Page, address: str) -> Amount:
    """Open ``address`` and measure its text once it stands still."""
    page.set_viewport_size({"width": WIDTH, "height": SCREEN_HEIGHT})
    page.goto(address)
    page.locator(f"{_MAIN} h1, {_MAIN} canvas, {_MAIN} h2").first.wait_for(timeout=90_000)
    page.locator(_IDLE).wait_for(timeout=90_000)
    page.wait_for_timeout(_SETTLE_MS)
    words, figures = count_words(page.locator(_MAIN).inner_text())
    height = page.locator(_MAIN).evaluate("main => main.scrollHeight")
    return Amount(words, figures, round(height / SCREEN_HEIGHT, 1))


def main() -> None:
    """Print a table of all pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--page", choices=PAGES, help="Measure this page only.")
    arguments = parser.parse_args()
    print(f"{'page':<10}{'words':>7}{'figures':>9}{'screens':>9}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        for name in [arguments.page] if arguments.page else PAGES:
            amount = measure_page(page, f"{arguments.address}/{PAGES[name]}")
            print(f"{name:<10}{amount.words:>7}{amount.figures:>9}{amount.screens:>9}")
        browser.close()


if __name__ == "__main__":
    main()
