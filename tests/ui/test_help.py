from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from graphviz_dash.documentation import SITE_FOLDER, build_url
from graphviz_dash.ui.page.registry import PAGES
from tests.ui.standing import follow, lent
from tests.ui.tabs import Overheard, tab
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

HAS_SITE = (SITE_FOLDER / "index.html").is_file()


def shows_section(page: Page, anchor: str) -> None:
    expect(page.locator(f'[id="{anchor}"]').first).to_be_in_viewport()


def test_the_section_of_every_page_exists(visitor: BrowserContext, dashboard: str) -> None:
    for row in PAGES.values():
        answer = visitor.request.get(f"{dashboard}{build_url(row.help)}")
        assert answer.status == 200
        assert re.search(rf'\bid="?{row.help.partition("#")[2]}[" >]', answer.text()), row.help


def test_a_section_opens_without_errors_or_requests_to_other_hosts(
    visitor: BrowserContext, dashboard: str
) -> None:
    with tab(visitor) as page:
        heard = Overheard(page, dashboard)
        place = PAGES["compile"].help
        page.goto(f"{dashboard}{build_url(place)}")
        shows_section(page, place.partition("#")[2])
        assert (heard.foreign, heard.errors) == ([], [])


def test_the_menu_has_nothing_of_streamlit_alone(tab_of_dashboard: Page) -> None:
    with lent(tab_of_dashboard) as page:
        page.get_by_test_id("stMainMenu").get_by_role("button").click()
        menu = page.get_by_test_id("stMainMenuPopover")
        expect(menu.get_by_text("Print")).to_be_visible()
        expect(menu.get_by_text("Record screen")).to_be_hidden()
        expect(menu.get_by_text("Made with Streamlit")).to_be_hidden()
        page.keyboard.press("Escape")


def test_a_title_and_a_metric_link_to_their_sections(dashboard_tab: Page) -> None:
    page = dashboard_tab
    follow(page, "compare?experiment=fork-join")
    title = page.get_by_role("link", name="Help: Compare")
    expect(title).to_be_visible()
    expect(page.locator("table.figures").first).to_be_visible()
    idle(page)
    with page.expect_popup() as opened:
        title.click()
    shows_section(opened.value, PAGES["compare"].help.partition("#")[2])
    opened.value.close()
    with page.expect_popup() as opened:
        page.locator("table.figures a.to-docs", has_text="Step time").first.click()
    shows_section(opened.value, "step-time")
    opened.value.close()


@pytest.mark.skipif(not HAS_SITE, reason="the site is not built: make site")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_searches_in_both_themes(
    visitor: BrowserContext, dashboard: str, scheme: str
) -> None:
    with tab(visitor, theme="dark" if scheme == "dark" else "light") as page:
        heard = Overheard(page, dashboard)
        page.goto(f"{dashboard}/docs/index.html")
        shown = page.locator("body").get_attribute("data-md-color-scheme")
        assert shown == ("slate" if scheme == "dark" else "default")
        page.keyboard.press("/")
        page.keyboard.type("break-even")
        found = page.locator(".md-search-result__link").first
        expect(found).to_be_visible()
        expect(page.locator(".md-search-result__list")).to_contain_text("Metrics")
        assert (heard.foreign, heard.errors) == ([], [])
