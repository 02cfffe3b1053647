"""Tabs whose document stays for many tests. They follow the dashboard's own links, which takes half
the time of loading a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import BrowserContext, Error, Page, expect

from tests.ui.appearance import is_light, turn
from tests.ui.tabs import tab
from tests.ui.waits import idle

WIDTH, HEIGHT = 1280, 860

_NOWHERE: Final = "doctor?experiment=nowhere"
_NOT_HERE: Final = "Experiment not found"
_FOLLOW: Final = """href => {
  const link = Object.assign(document.createElement("a"), {className: "to-page", href})
  document.body.append(link)
  link.click()
  link.remove()
}"""
_STEP: Final = """path => {
  history.pushState({}, "", path)
  dispatchEvent(new PopStateEvent("popstate"))
}"""


@contextmanager
def standing_tab(visitor: BrowserContext, address: str) -> Iterator[Page]:
    """A tab of the dashboard at ``address``, on a page that shows nothing."""
    with tab(visitor) as page:
        page.goto(f"{address}/{_NOWHERE}")
        page.get_by_text(_NOT_HERE).wait_for()
        yield page


@contextmanager
def lent(page: Page) -> Iterator[Page]:
    """A standing tab for one test: as wide and bright as at first, and throwing nothing."""
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    if not is_light(page):
        _leave(page)
        turn(page, "light")
    page.emulate_media(reduced_motion="no-preference")
    errors: list[str] = []

    def note(error: Error) -> None:
        errors.append(str(error))

    page.on("pageerror", note)
    yield page
    page.remove_listener("pageerror", note)
    assert errors == []


def follow(page: Page, path: str) -> None:
    """Make a tab follow a link through an empty page, so that nothing of its page remains."""
    _leave(page)
    leave_for(page, path)
    expect(page.get_by_text(_NOT_HERE)).to_have_count(0)


def leave_for(page: Page, path: str) -> None:
    """Clicks a link to a page and waits for nothing."""
    page.evaluate(_FOLLOW, f"/{path}")


def _leave(page: Page) -> None:
    if not page.url.endswith(_NOWHERE):
        leave_for(page, _NOWHERE)
        page.get_by_text(_NOT_HERE).wait_for()
    idle(page)
    expect(page.locator("canvas, .js-plotly-plot, table")).to_have_count(0)


def step(page: Page, path: str) -> None:
    """Has Streamlit's front end go to a page as Back and Forward do."""
    page.evaluate(_STEP, f"/{path}")


def show(page: Page, query: str) -> None:
    """Make a tab of the components' site show a component again."""
    step(page, "")
    page.get_by_text("nothing is shown").wait_for()
    idle(page)
    step(page, f"?show={query}")
