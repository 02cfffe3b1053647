from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from scripts.walk import measure_amount
from tests.ui.standing import follow
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

LIMITS = {
    "compare?experiment=mlp-train": (450, 150, 2.5),
    "doctor?experiment=sync-in-step": (300, 40, 1.6),
    "doctor?experiment=moved-inputs": (320, 60, 1.7),
    "doctor?experiment=compile-fixes": (300, 40, 1.6),
}
"""Most words, figures and screens, by address."""


@pytest.mark.parametrize("address", LIMITS)
def test_a_page_has_few_words(dashboard_tab: Page, address: str) -> None:
    page = dashboard_tab
    follow(page, address)
    expect(page.locator(".answer, .doctor-verdict").first).to_be_visible()
    idle(page)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
    amount = measure_amount(page)
    words, figures, screens = LIMITS[address]
    assert 100 < amount.words <= words
    assert amount.figures <= figures
    assert amount.screens <= screens
