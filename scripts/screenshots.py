"""Take screenshots of every page in both themes for the README.

Needs a dashboard that serves the samples:

graphviz-dash serve sample_traces --port 8601 &
python -m scripts.screenshots http://127.0.0.1:8601 docs/pictures.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.chromium import system_chromium

_PAGES: Final = {
    "overview": ("", ".hero", 1000),
    "compare": ("compare?experiment=mlp-train", ".js-plotly-plot .main-svg", 1160),
    "graph": ("graph?experiment=fork-join&node=30", ".dag canvas[data-boxes]", 860),
    "graph-folded": ("graph?experiment=transformer-train", ".dag canvas[data-boxes]", 860),
    "timeline": ("timeline?experiment=mlp-train", ".timeline canvas[data-painted]", 860),
    "memory": ("memory?experiment=gpt-train&run=partial", ".js-plotly-plot .main-svg", 1160),
    "graphs": ("graphs?experiment=recorded-server", ".js-plotly-plot .main-svg", 1160),
    "compile": ("compile?experiment=compile-fixes&run=fixed-0", ".js-plotly-plot .main-svg", 1160),
    "ranks": ("ranks?experiment=tp-transformer&mode=eager", ".js-plotly-plot .main-svg", 1000),
    "launch": ("launch", ".js-plotly-plot .main-svg", 860),
    "doctor": ("doctor?experiment=sync-in-step", ".badge", 860),
    "export": ("export?experiment=mlp-train", ".perfetto", 720),
}
"""Address, selector to wait for, and height in pixels, by picture name."""

_WIDTH: Final = 1280
_IDLE_SELECTOR: Final = '[data-testid="stApp"][data-test-script-state="notRunning"]'
_SETTLE_MS: Final = 1800


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
            page = context.new_page()
            for name, (path, ready, height) in _PAGES.items():
                page.set_viewport_size({"width": _WIDTH, "height": height})
                take_screenshot(
                    page,
                    f"{arguments.address}/{path}",
                    ready,
                    arguments.folder / f"{name}-{scheme}.webp",
                )
            context.close()
        browser.close()


def take_screenshot(page: Page, address: str, ready: str, target: Path) -> None:
    """Take one screenshot without loss."""
    page.goto(address)
    page.locator(ready).first.wait_for(timeout=90_000)
    page.locator(_IDLE_SELECTOR).wait_for(timeout=90_000)
    page.wait_for_timeout(_SETTLE_MS)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.save(target, lossless=True, quality=100, method=6)


if __name__ == "__main__":
    main()
