from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.ui.appearance import SHIFTS
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
