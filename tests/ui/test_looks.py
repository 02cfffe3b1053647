"""Pages in both themes compared with gold pictures; broken views must fail. Pages without a
picture: test_every_page.py."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from PIL import Image, ImageDraw, ImageStat
from playwright.sync_api import BrowserContext, Page, expect

from tests.ui.appearance import (
    SHIFTS,
    STILL,
    assert_fits_when_narrow,
    broken_rules,
    is_light,
    turn,
)
from tests.ui.pictures import (
    BARS_FOR_TEXT,
    BARS_FOR_WORDS,
    GOLD,
    MOST_OFF,
    WORDS_FOR_BARS,
    agrees,
    assert_picture,
    off,
    reduced,
)
from tests.ui.tabs import THEMES, Overheard, Theme, tab
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

WIDTH, HEIGHT = 1280, 860
PATIENCE: Final = 20
"""Pictures taken, a second apart, before one that differs is a failure."""


@dataclass(frozen=True)
class View:
    """A page of synthetic experiments, with an element to wait for."""

    path: str
    ready: str


CHART: Final = ".js-plotly-plot .main-svg"
VIEWS: Final = {
    "overview": View("", ".hero"),
    "compare": View("compare?experiment=step", CHART),
    "graph": View("graph?experiment=branches&node=6", ".dag canvas[data-boxes]"),
    "timeline": View("timeline?experiment=step", ".timeline canvas[data-painted]"),
    "memory": View("memory?experiment=step", CHART),
    "export": View("export?experiment=step", ".perfetto"),
}
"""Half of them are loaded in light and half in dark; the system's colours then change."""
BEGUN: Final[dict[str, Theme]] = {
    name: THEMES[number % len(THEMES)] for number, name in enumerate(VIEWS)
}


@pytest.fixture
def page(request: pytest.FixtureRequest, visitor: BrowserContext) -> Iterator[Page]:
    with tab(visitor, WIDTH, HEIGHT, request.param, still=True) as opened:
        opened.add_init_script(BARS_FOR_TEXT + SHIFTS)
        yield opened


@pytest.mark.parametrize(("name", "page"), BEGUN.items(), indirect=["page"])
def test_a_page(name: str, page: Page, made: str) -> None:
    begun: Theme = BEGUN[name]
    overheard = Overheard(page, made)
    visit(page, made, VIEWS[name])
    assert page.evaluate("window.shifts") < STILL
    for theme in sorted(THEMES, key=lambda theme: theme != begun):
        if theme != begun:
            turn(page, theme)
        assert is_light(page) == (theme == "light")
        assert page.locator('[data-testid="stException"]').count() == 0
        # What is not a matter of colour was looked at in the first of them.
        assert broken_rules(page, of_colours=theme != begun) == []
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        picture(page, f"{name}-{theme}")
    assert_fits_when_narrow(page, HEIGHT)
    assert overheard.errors == []
    assert overheard.foreign == []


def visit(page: Page, address: str, view: View) -> None:
    page.goto(f"{address}/{view.path}")
    page.locator(view.ready).first.wait_for()
    idle(page)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)


def picture(page: Page, name: str) -> None:
    """Compares the page with its gold picture, and leaves it as it was."""
    shot = with_bars_for_text(page)
    for _ in range(PATIENCE):
        # A canvas whose data a busy machine has not sent yet rests too.
        if agrees(shot, name):
            break
        page.wait_for_timeout(1_000)
        shot = with_bars_for_text(page)
    assert_picture(shot, name)
    page.evaluate(WORDS_FOR_BARS)


def with_bars_for_text(page: Page) -> bytes:
    """A screenshot once nothing moves any more."""
    page.evaluate(BARS_FOR_WORDS)
    before = b""
    for _ in range(60):
        page.wait_for_timeout(150)
        now = page.screenshot(animations="disabled", caret="hide")
        if now == before:
            return now
        before = now
    raise AssertionError("the page does not come to rest")


@pytest.mark.parametrize("page", THEMES, indirect=True)
def test_the_rules_see_what_is_broken(page: Page) -> None:
    page.set_content("<main><img src='x.png'><p style='color:#bbb'>pale</p></main>")
    assert {rule for rule, _ in broken_rules(page)} >= {"image-alt", "color-contrast"}
    assert {rule for rule, _ in broken_rules(page, of_colours=True)} == {"color-contrast"}


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
