from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.ui.standing import follow
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

_ANY: Final = re.compile(r"\w")


@pytest.fixture
def page(made_tab: Page) -> Page:
    return made_tab


def test_arrows_choose_inside_a_group(page: Page, made: str) -> None:
    follow(page, "launch")
    scale = page.get_by_role("radio", name="logarithmic")
    idle(page)
    scale.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="linear")).to_be_checked()
    expect(page).to_have_url(f"{made}/launch?scale=linear")


def test_canvases_say_what_they_show(page: Page) -> None:
    for path in ("graph?experiment=branches", "timeline?experiment=branches"):
        follow(page, path)
        name = path.partition("?")[0]
        stage = page.locator(f".{'dag' if name == 'graph' else name} canvas").first
        expect(stage).to_have_attribute("aria-label", _ANY)
        expect(stage).to_have_attribute("role", _ANY)
        expect(stage).to_have_attribute("tabindex", "0")
