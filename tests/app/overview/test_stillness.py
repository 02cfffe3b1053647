from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.ui.appearance import SHIFTS
from tests.ui.standing import follow
from tests.ui.tabs import tab
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

LARGEST_SHIFT = 0.01


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_experiments_stay_in_place_while_fields_arrive(
    visitor: BrowserContext, dashboard: str, width: int
) -> None:
    with tab(visitor, width, 860) as page:
        page.add_init_script(SHIFTS)
        page.goto(f"{dashboard}/?view=Table")
        idle(page)
        expect(page.locator(".st-key-arrange input").first).to_be_visible()
        expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
        assert page.evaluate("window.shifts") < LARGEST_SHIFT
        # On a slow machine the buttons arrive after the title has been drawn.
        filled, empty = page.evaluate(GET_PLACES)
        assert filled == empty


GET_PLACES = """() => {
  const head = document.querySelector(".st-key-head")
  const places = head.querySelector(".places")
  places.textContent = places.textContent.repeat(4)
  const buttons = head.querySelector(".st-key-head-buttons")
  const getPlace = () => [head.offsetHeight, buttons.offsetLeft]
  const filled = getPlace()
  for (const button of buttons.children) button.style.display = "none"
  return [filled, getPlace()]
}"""
"""Height of the head with long names of folders and place of its buttons, with and without them."""


def test_no_label_is_visible_before_its_page(dashboard_tab: Page) -> None:
    page = dashboard_tab
    follow(page, "compare?experiment=mlp-train")
    label = page.get_by_test_id("stWidgetLabel").filter(has_text="Group by")
    expect(label).to_be_visible()
    idle(page)
    page.locator('[data-testid="stMainBlockContainer"] [data-testid="stElementContainer"]').nth(
        0
    ).evaluate(
        """element => {
          document.documentElement.classList.add("fresh")
          element.setAttribute("height", "auto")
          element.insertAdjacentHTML("beforeend", '<div data-testid="stSkeleton"></div>')
        }"""
    )
    expect(label).not_to_be_visible()
    page.evaluate(
        """() => {
          document.documentElement.classList.remove("fresh")
          document.querySelector('[data-testid="stSkeleton"]').remove()
        }"""
    )
    expect(label).to_be_visible()
