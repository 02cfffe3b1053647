from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.ui.standing import follow
from tests.ui.waits import idle

pytestmark = pytest.mark.ui


def test_a_fold_stays_as_the_visitor_left_it_on_the_same_page(dashboard_tab: Page) -> None:
    page = dashboard_tab
    follow(page, "compare?experiment=mlp-train")
    metrics = page.locator("details.more").filter(has_text="metrics").first
    expect(metrics).to_be_attached()
    idle(page)
    metrics.locator("summary").click()
    expect(metrics).to_have_attribute("open", "")
    page.get_by_role("radio", name="compile", exact=True).click()
    expect(page.locator(".answer")).to_contain_text("outside graphs")
    idle(page)
    expect(metrics).to_have_attribute("open", "")
    metrics.locator("summary").click()
    page.get_by_role("radio", name="graph", exact=True).click()
    expect(page.locator(".answer")).not_to_contain_text("outside graphs")
    idle(page)
    expect(metrics).not_to_have_attribute("open", "")
    # Another page starts with closed folds.
    metrics.locator("summary").click()
    page.get_by_role("link", name="Memory", exact=True).first.click()
    page.wait_for_url("**/memory?*")
    idle(page)
    page.get_by_role("link", name="Compare", exact=True).first.click()
    page.wait_for_url("**/compare?*")
    expect(metrics).to_be_attached()
    idle(page)
    expect(metrics).not_to_have_attribute("open", "")
