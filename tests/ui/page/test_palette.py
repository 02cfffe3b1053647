from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.ui.standing import follow
from tests.ui.tabs import tab
from tests.ui.waits import at_page, idle

pytestmark = pytest.mark.ui

COMPARISON: Final = "compare?experiment=fork-join"
NOTE_LABELS = """
window.labels = []
new MutationObserver(() => {
  const label = document.querySelector(".share-link")?.textContent
  if (label && label !== window.labels.at(-1)) window.labels.push(label)
}).observe(document.body, {childList: true, subtree: true, characterData: true})
"""
"""Keep the labels of the button to share, which shows one of them for two seconds only."""


@pytest.fixture(scope="module")
def tab_of_comparison(visitor: BrowserContext, dashboard: str) -> Iterator[Page]:
    with tab(visitor) as page:
        page.goto(f"{dashboard}/{COMPARISON}")
        yield page


@pytest.fixture
def page(tab_of_comparison: Page) -> Iterator[Page]:
    """The comparison, with its own entries and a closed palette."""
    page = tab_of_comparison
    if not page.url.endswith(COMPARISON):
        follow(page, COMPARISON)
        at_page(page, "compare")
    idle(page)
    entries = page.locator("[data-palette]").get_attribute("data-palette")
    yield page
    page.keyboard.press("Escape")
    expect(page.locator("dialog.palette[open]")).to_have_count(0)
    if page.url.endswith(COMPARISON):
        page.locator("[data-palette]").evaluate(
            "(bar, entries) => { bar.dataset.palette = entries }", entries
        )


def test_a_page_drawn_after_sharing_keeps_the_confirmation(page: Page) -> None:
    button = page.locator(".share-link")
    page.evaluate(
        """() => {
          navigator.clipboard.writeText = async () => {}
          const button = document.querySelector(".share-link")
          const fresh = button.cloneNode(true)
          button.click()
          requestAnimationFrame(() => {
            button.replaceWith(fresh)
            NOTE_LABELS
          })
        }""".replace("NOTE_LABELS", NOTE_LABELS)
    )
    page.wait_for_function("window.labels?.includes('Link copied')")
    expect(button).to_have_text("Share")
    assert page.evaluate("window.labels.at(-1)") == "Share"


def test_ctrl_k_between_two_pages_opens_with_the_next(page: Page) -> None:
    page.evaluate(
        """window.bar = document.querySelector("[data-palette]")
        window.entries = bar.dataset.palette
        delete bar.dataset.palette"""
    )
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Go to")
    expect(field).not_to_be_attached()
    page.evaluate("bar.dataset.palette = entries")
    expect(field).to_be_focused()


def test_invisible_characters_of_names_are_shown(page: Page) -> None:
    page.evaluate(
        """() => {
          const bar = document.querySelector("[data-palette]")
          const entries = JSON.parse(bar.dataset.palette)
          entries.experiments = ["safe\\u202egpj.exe", "bell\\u0007 and <b>bold</b>"]
          bar.dataset.palette = JSON.stringify(entries)
        }"""
    )
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to").fill("experiment")
    names = page.locator("dialog.palette [role=option] b")
    expect(names.first).to_have_text(r"safe\u202egpj.exe")
    expect(names.nth(1)).to_have_text(r"bell\x07 and <b>bold</b>")
    first = page.locator("dialog.palette [role=option]").first
    expect(first).to_have_attribute("href", re.compile("experiment=safe%E2%80%AEgpj[.]exe"))


def test_experiments_that_the_page_does_not_list_come_from_the_server(page: Page) -> None:
    page.evaluate(
        """() => {
          const bar = document.querySelector("[data-palette]")
          const entries = JSON.parse(bar.dataset.palette)
          entries.experiments = null
          bar.dataset.palette = JSON.stringify(entries)
        }"""
    )
    page.keyboard.press("Control+k")
    names = page.locator("dialog.palette [role=option]").filter(has_text="decode")
    expect(names.filter(has=page.locator("em", has_text="experiment"))).to_have_count(1)
    field = page.get_by_role("combobox", name="Go to")
    field.fill("experiment decode")
    field.press("Enter")
    page.wait_for_url("**/compare?experiment=decode")


def test_ctrl_k_jumps_and_share_copies(page: Page) -> None:
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Go to")
    expect(field).to_be_focused()
    field.fill("page memory")
    field.press("Enter")
    page.wait_for_url("**/memory?experiment=fork-join")
    page.keyboard.press("Control+k")
    field.fill("tanh")
    node = page.get_by_role("option").filter(has_text="node").first
    expect(node).to_be_visible()
    node.click()
    page.wait_for_url("**/graph?experiment=fork-join&run=graph&graph=graph-0&node=*")
    page.keyboard.press("Control+k")
    field.fill("experiment decode")
    field.press("Enter")
    page.wait_for_url("**/compare?experiment=decode")
    at_page(page, "compare")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.evaluate(NOTE_LABELS)
    page.locator(".share-link").click()
    page.wait_for_function("window.labels.includes('Link copied')")
    page.wait_for_function("window.copied === location.href")
