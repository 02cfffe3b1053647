from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from graphviz_dash.app.hosting.document import (
    IDLE_ELEMENTS,
    OVERVIEW_ELEMENTS,
    SCRIPTS,
    build_preload_links,
    complete_document,
    list_element_scripts,
    list_required_scripts,
)
from graphviz_dash.app.hosting.server import ASSETS
from tests.ui.tabs import tab

ICON = """async () => {
  const link = document.querySelector("link[rel='shortcut icon']")
  return [...new Uint8Array(await (await fetch(link.href)).arrayBuffer())]
}"""

FIELDS = ("TextInput", "Selectbox")
"""Widgets of the search on the start page, which the cards do not need."""

SCRIPTS_ASKED = """() => performance.getEntriesByType("resource").map(one => one.name)
  .filter(name => name.includes("/static/js/")).map(name => name.split("/").pop())"""


@pytest.fixture
def page(visitor: BrowserContext) -> Iterator[Page]:
    with tab(visitor) as opened:
        yield opened


def assert_our_icon(page: Page) -> None:
    # Given by the script of the page, once it has run.
    page.locator('[data-test-script-state="notRunning"]').wait_for()
    assert bytes(page.evaluate(ICON)) == (ASSETS / "icon.png").read_bytes()


def test_a_page_has_our_icon_in_its_tab(page: Page, made: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{made}/doctor?experiment=branches")
    page.get_by_role("link", name="Doctor", exact=True).first.wait_for()
    assert_our_icon(page)
    assert all(url.startswith((made, "data:")) for url in asked)


def test_parts_of_other_pages_are_loaded_when_the_first_stands(page: Page, made: str) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(made)
    page.locator(".own").wait_for()
    # None was found to be needed only when an element came: that costs another round of requests.
    asked = takewhile(
        lambda name: name.split(".")[0] not in IDLE_ELEMENTS, page.evaluate(SCRIPTS_ASKED)
    )
    known = list_required_scripts(SCRIPTS, list_element_scripts((*OVERVIEW_ELEMENTS, *FIELDS)))
    assert [name for name in asked if name not in known] == []
    known = build_preload_links(OVERVIEW_ELEMENTS)
    assert not any(f"/static/js/{name}" in known for name in list_element_scripts(FIELDS))
    for part in IDLE_ELEMENTS:
        page.wait_for_function(
            "part => performance.getEntriesByType('resource')"
            ".some(one => one.name.includes(`/static/js/${part}.`))",
            arg=part,
        )
    assert_our_icon(page)
    assert all(url.startswith((made, "data:")) for url in requests)


UNFINISHED = b"""<html><head></head><body>
<main data-testid="stMainBlockContainer">
  <p>A title</p>
  <div data-testid="stElementContainer" height="auto"><i data-testid="stSkeleton"></i></div>
</main></body></html>"""


def test_content_around_a_placeholder_appears_if_the_placeholder_stays(page: Page) -> None:
    document = complete_document(UNFINISHED, "").decode()
    page.clock.install()
    page.route(
        "http://unfinished/", lambda route: route.fulfill(body=document, content_type="text/html")
    )
    page.goto("http://unfinished/")
    title = page.get_by_text("A title")
    expect(title).to_be_hidden()
    # A browser that is busy with a script for a minute, and then for another: no time to draw.
    page.clock.fast_forward(60_000)
    page.clock.fast_forward(60_000)
    assert title.is_hidden()
    page.clock.run_for(4_000)
    page.evaluate("document.querySelector('main').append(document.createElement('p'))")
    page.clock.run_for(5_000)
    assert title.is_hidden()
    # It had the time, and nothing came.
    page.clock.run_for(2_000)
    expect(title).to_be_visible()
