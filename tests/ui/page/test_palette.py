from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.ui.tabs import tab
from tests.ui.waits import at_page

pytestmark = pytest.mark.ui

NOTE_LABELS = """
window.labels = []
new MutationObserver(() => {
  const label = document.querySelector(".share-link")?.textContent
  if (label && label !== window.labels.at(-1)) window.labels.push(label)
}).observe(document.body, {childList: true, subtree: true, characterData: true})
"""
"""Keep the labels of the button to share, which shows one of them for two seconds only."""


def test_ctrl_k_jumps_and_share_copies(visitor: BrowserContext, dashboard: str) -> None:
    with tab(visitor) as page:
        page.goto(f"{dashboard}/compare?experiment=fork-join")
        expect(page.locator("[data-palette]")).to_be_attached()
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


def test_a_page_drawn_after_sharing_keeps_the_confirmation(
    visitor: BrowserContext, dashboard: str
) -> None:
    with tab(visitor) as page:
        page.goto(f"{dashboard}/compare?experiment=fork-join")
        button = page.locator(".share-link")
        expect(button).to_be_attached()
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


def test_ctrl_k_between_two_pages_opens_with_the_next(
    visitor: BrowserContext, dashboard: str
) -> None:
    with tab(visitor) as page:
        page.goto(f"{dashboard}/compare?experiment=fork-join")
        expect(page.locator("[data-palette]")).to_be_attached()
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


def test_invisible_characters_of_names_are_shown(visitor: BrowserContext, dashboard: str) -> None:
    with tab(visitor) as page:
        page.goto(f"{dashboard}/compare?experiment=fork-join")
        expect(page.locator("[data-palette]")).to_be_attached()
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


def test_experiments_that_the_page_does_not_list_come_from_the_server(
    visitor: BrowserContext, dashboard: str
) -> None:
    with tab(visitor) as page:
        page.goto(f"{dashboard}/compare?experiment=fork-join")
        expect(page.locator("[data-palette]")).to_be_attached()
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
