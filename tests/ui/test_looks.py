"""How each page looks in both themes: accessible by axe's rules, without jumps while it loads, with
no error and no other host, and as in the gold pictures; and that a view which is broken would not
pass."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import pytest
from PIL import Image, ImageDraw, ImageStat
from playwright.sync_api import BrowserContext, Page, expect

from tests.serving import ROOT
from tests.ui.pictures import (
    BARS_FOR_TEXT,
    BARS_FOR_WORDS,
    GOLD,
    MOST_OFF,
    agrees,
    assert_picture,
    off,
    reduced,
)
from tests.ui.tabs import THEMES, Overheard, tab

pytestmark = pytest.mark.ui

WIDTH, HEIGHT = 1280, 860
NARROW: Final = 800
PATIENCE: Final = 5
STILL: Final = 0.1
"""The cumulative layout shift up to which web.dev calls a page good."""

RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
SHIFTS: Final = """
window.shifts = 0
new PerformanceObserver(seen => {
  for (const one of seen.getEntries()) if (!one.hadRecentInput) window.shifts += one.value
}).observe({type: "layout-shift", buffered: true})
"""


@dataclass(frozen=True)
class View:
    """A page, what must be there before it is looked at, and whether a gold picture is kept."""

    path: str
    ready: str
    made: bool = True
    """Of experiments made here: their pictures do not change when samples are recorded anew."""


CHART: Final = ".js-plotly-plot .main-svg"
VIEWS: Final = {
    "overview": View("", ".hero"),
    "compare": View("compare?experiment=step", CHART),
    "graph": View("graph?experiment=branches&node=6", ".dag canvas[data-boxes]"),
    "timeline": View("timeline?experiment=step", ".timeline canvas[data-painted]"),
    "memory": View("memory?experiment=step", CHART),
    "export": View("export?experiment=step", ".perfetto"),
    "graphs": View("graphs?experiment=fork-join", ".empty", made=False),
    "compile": View("compile?experiment=compile-mends", ".program [role=treeitem]", made=False),
    "ranks": View("ranks?experiment=tp-transformer", CHART, made=False),
    "launch": View("launch", CHART, made=False),
    "doctor": View("doctor?experiment=sync-in-step", ".badge", made=False),
}


@pytest.fixture(params=THEMES)
def page(request: pytest.FixtureRequest, visitor: BrowserContext) -> Iterator[Page]:
    with tab(visitor, WIDTH, HEIGHT, request.param, still=True) as opened:
        opened.add_init_script(BARS_FOR_TEXT + SHIFTS)
        yield opened


@pytest.fixture
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["page"])


@pytest.mark.parametrize("name", VIEWS)
def test_a_page(name: str, page: Page, theme: str, made: str, dashboard: str) -> None:
    view = VIEWS[name]
    address = made if view.made else dashboard
    overheard = Overheard(page, address)
    visit(page, address, view)
    assert is_light(page) == (theme == "light")
    assert page.locator('[data-testid="stException"]').count() == 0
    assert page.evaluate("window.shifts") < STILL
    assert broken_rules(page) == []
    assert page.get_by_role("heading", level=1).count() == 1
    if view.made:
        shot = with_bars_for_text(page)
        for _ in range(PATIENCE):
            # A canvas whose data a busy machine has not sent yet rests too.
            if agrees(shot, f"{name}-{theme}"):
                break
            page.wait_for_timeout(1_000)
            shot = with_bars_for_text(page)
        assert_picture(shot, f"{name}-{theme}")
    page.set_viewport_size({"width": NARROW, "height": HEIGHT})
    # Charts follow the width a moment later.
    page.wait_for_function(
        "main => main.scrollWidth <= main.clientWidth",
        arg=page.get_by_test_id("stMain").element_handle(),
    )
    for link in ("Overview", "Export"):
        expect(page.locator(".st-key-top-bar").get_by_role("link", name=link)).to_be_in_viewport()
    assert overheard.errors == []
    assert overheard.foreign == []


def is_light(page: Page) -> bool:
    """Whether the background is light."""
    background = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    return sum(int(part) for part in re.findall(r"\d+", background)[:3]) > 382


def visit(page: Page, address: str, view: View) -> None:
    """Opens a view and waits until it is drawn."""
    page.goto(f"{address}/{view.path}")
    page.locator(view.ready).first.wait_for()
    settled = '[data-testid="stApp"][data-test-script-state="notRunning"]'
    expect(page.locator(settled)).to_be_visible()
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)


def broken_rules(page: Page) -> list[tuple[str, Any]]:
    """The rules of WCAG A and AA that axe finds broken, and where."""
    if not page.evaluate("window.axe !== undefined"):
        page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    found = page.evaluate(
        "rules => axe.run(document, {resultTypes: ['violations'], runOnly: rules})", RULES
    )
    return [
        (rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found["violations"]
    ]


def with_bars_for_text(page: Page) -> bytes:
    """A screenshot once nothing moves any more."""
    page.evaluate(BARS_FOR_WORDS)
    before = b""
    for _ in range(20):
        page.wait_for_timeout(150)
        now = page.screenshot(animations="disabled", caret="hide")
        if now == before:
            return now
        before = now
    raise AssertionError("the page does not come to rest")


def test_the_rules_see_what_is_broken(page: Page) -> None:
    page.set_content("<main><img src='x.png'><p style='color:#bbb'>pale</p></main>")
    assert {rule for rule, _ in broken_rules(page)} >= {"image-alt", "color-contrast"}


def gold(name: str) -> Image.Image:
    return Image.open(GOLD / f"{name}.png").convert("RGB")


@pytest.mark.parametrize("path", sorted(GOLD.glob("*-*.png")), ids=lambda path: path.stem)
def test_a_missing_panel_or_another_theme_is_seen(path: Path) -> None:
    whole = gold(path.stem)
    page = whole.getpixel((3, whole.height // 2))
    wide, tall = whole.width // 4, whole.height // 4
    parts = [
        (left * wide, top * tall, (left + 1) * wide, (top + 1) * tall)
        for left in range(4)
        for top in range(4)
    ]
    drawn = [part for part in parts if ImageStat.Stat(whole.crop(part)).stddev[0] > 25]
    assert len(drawn) > 3
    for part in drawn:
        broken = whole.copy()
        ImageDraw.Draw(broken).rectangle(part, fill=page)
        assert off(broken, whole) > MOST_OFF, part
    name, _, theme = path.stem.rpartition("-")
    other = gold(f"{name}-{'dark' if theme == 'light' else 'light'}")
    assert off(other, whole) > 0.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["overview", "compare", "graph", "timeline", "memory"])
def test_swapped_colours_are_seen(name: str, theme: str) -> None:
    whole = gold(f"{name}-{theme}")
    red, green, blue = whole.split()
    assert (
        off(Image.merge("RGB", (green, red, blue)), whole) > MOST_OFF
        or off(Image.merge("RGB", (blue, green, red)), whole) > MOST_OFF
    )


def test_a_few_pixels_aside_are_the_same_picture() -> None:
    screen = Image.new("RGB", (WIDTH, HEIGHT), "#fbfbfd")
    draw = ImageDraw.Draw(screen)
    for row in range(8):
        draw.rectangle((60, 80 + 90 * row, 360 + 100 * row, 130 + 90 * row), fill="#4177a8")
    moved = Image.new("RGB", screen.size, "#fbfbfd")
    moved.paste(screen, (3, 2))
    assert off(reduced(png(moved)), reduced(png(screen))) <= MOST_OFF
    aside = Image.new("RGB", screen.size, "#fbfbfd")
    aside.paste(screen, (0, 24))
    assert off(reduced(png(aside)), reduced(png(screen))) > MOST_OFF


def png(picture: Image.Image) -> bytes:
    held = io.BytesIO()
    picture.save(held, "PNG")
    return held.getvalue()


def test_every_page_is_looked_at() -> None:
    paths = {re.split(r"[?]", view.path)[0] or "overview" for view in VIEWS.values()}
    assert paths == {path.stem for path in (ROOT / "graphviz_dash/ui/views").glob("[a-z]*.py")}
