from __future__ import annotations

import re
from importlib.resources import files
from typing import Any, Final

from playwright.sync_api import Page, expect

from tests.ui.tabs import Theme
from tests.ui.waits import idle

NARROW: Final = 800
STILL: Final = 0.1
"""The cumulative layout shift up to which web.dev calls a page good."""

SHIFTS: Final = """
window.shifts = 0
new PerformanceObserver(seen => {
  for (const one of seen.getEntries()) if (!one.hadRecentInput) window.shifts += one.value
}).observe({type: "layout-shift", buffered: true})
"""
"""Before a page is loaded: its cumulative layout shift, kept in ``shifts``."""

_RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]
_DARKEST_LIGHT: Final = 382
"""Limit of the sum of red, green and blue, each 0 to 255."""


def is_light(page: Page) -> bool:
    background = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    return sum(int(part) for part in re.findall(r"\d+", background)[:3]) > _DARKEST_LIGHT


def turn(page: Page, theme: Theme) -> None:
    """Change the system's colours while the page is open, without motion."""
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.wait_for_function(
        "([light, most]) => {"
        "const colour = getComputedStyle(document.querySelector('.stApp')).backgroundColor;"
        "const parts = colour.match(/\\d+/g).slice(0, 3).map(Number);"
        "return (parts[0] + parts[1] + parts[2] > most) === light }",
        arg=[theme == "light", _DARKEST_LIGHT],
    )
    # Charts take other colours in the frames that follow.
    page.wait_for_timeout(150)
    idle(page)


def broken_rules(page: Page, *, of_colours: bool = False) -> list[tuple[str, Any]]:
    """The rules of WCAG A and AA that axe finds broken, and where; ``of_colours``: of those alone
    that another theme of the same page can break."""
    if not page.evaluate("window.axe !== undefined"):
        page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    found = page.evaluate(
        "rules => axe.run(document, {resultTypes: ['violations'], selectors: false, preload: false,"
        " runOnly: rules})",
        _OF_COLOURS if of_colours else _RULES,
    )
    return [
        (rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found["violations"]
    ]


def assert_fits_when_narrow(page: Page, height: int) -> None:
    """Nothing leaves the page of a narrow window sideways, and the bar at the top is whole."""
    page.set_viewport_size({"width": NARROW, "height": height})
    # Charts follow the width a moment later.
    page.wait_for_function(
        "main => main.scrollWidth <= main.clientWidth",
        arg=page.get_by_test_id("stMain").element_handle(),
    )
    for link in ("Overview", "Export"):
        expect(page.locator(".st-key-top-bar").get_by_role("link", name=link)).to_be_in_viewport()
