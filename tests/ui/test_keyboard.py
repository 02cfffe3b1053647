"""Everything by keyboard: Tab reaches every control of every page, and where it is, is seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.waits import idle

pytestmark = pytest.mark.ui

PAGES: Final = {
    "": ".hero",
    "compare?experiment=fork-join": ".js-plotly-plot .main-svg",
    "graph?experiment=fork-join&node=30": ".dag canvas[data-boxes]",
    "timeline?experiment=fork-join": ".timeline canvas[data-painted]",
    "memory?experiment=gpt-train": ".js-plotly-plot .main-svg",
    "ranks?experiment=tp-transformer": ".js-plotly-plot .main-svg",
    "launch": ".js-plotly-plot .main-svg",
    "doctor?experiment=sync-in-step": ".badge",
    "export?experiment=fork-join": ".perfetto button",
}
_ANY: Final = re.compile(r"\w")

MOST: Final = 260
"""Presses of Tab; a table takes one for each column."""

HELPERS: Final = """
window.deep = (root, found = []) => {
  for (const one of root.querySelectorAll("*")) {
    found.push(one)
    if (one.shadowRoot) deep(one.shadowRoot, found)
  }
  return found
}
// A group of radio buttons or pills is one stop; the arrows lead on inside it.
window.groupOf = one => one.closest('[role="radiogroup"], [data-testid="stButtonGroup"]') ?? one
window.controls = () => [...new Set(deep(document).filter(one => {
  const box = one.getBoundingClientRect()
  return one.matches('a[href], button, input, select, textarea, summary, [tabindex="0"]')
    && one.tabIndex >= 0 && !one.disabled && box.width > 1 && box.height > 1
    && one.checkVisibility({visibilityProperty: true}) && !one.closest("[aria-hidden=true]")
}).map(groupOf))]
window.named = one => (one.getAttribute("aria-label") || one.textContent || one.tagName)
  .trim().slice(0, 60)
const looks = one => {
  const style = getComputedStyle(one)
  return [style.outlineStyle, style.outlineWidth, style.boxShadow, style.borderColor].join(" ")
}
window.atRest = () => { for (const one of deep(document)) one.looks = looks(one) }
window.focused = () => {
  let one = document.activeElement
  while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement
  if (!one || one === document.body) return null
  window.reached.add(groupOf(one))
  // A table draws its cursor itself, on its canvas.
  const table = one.closest('[data-testid="stDataFrame"]') !== null
  const around = [one, one.parentElement, one.parentElement?.parentElement].filter(Boolean)
  return {name: named(one), seen: table || around.some(near => looks(near) !== near.looks)}
}
window.reached = new Set()
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("path", PAGES)
def test_tab_reaches_every_control(path: str, page: Page, dashboard: str) -> None:
    page.goto(f"{dashboard}/{path}")
    page.locator(PAGES[path]).first.wait_for()
    ready = '[data-testid="stApp"][data-test-script-state="notRunning"]'
    expect(page.locator(ready)).to_be_visible()
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
    page.evaluate(HELPERS)
    page.evaluate("atRest()")
    unseen = []
    for _ in range(MOST):
        page.keyboard.press("Tab")
        focused: dict[str, Any] | None = page.evaluate("focused()")
        if focused is None:
            break
        if not focused["seen"]:
            unseen.append(focused["name"])
    assert unseen == []
    missed = page.evaluate("controls().filter(one => !reached.has(one)).map(named)")
    assert missed == []


def test_arrows_choose_inside_a_group(page: Page, dashboard: str) -> None:
    page.goto(f"{dashboard}/launch")
    scale = page.get_by_role("radio", name="logarithmic")
    idle(page)
    scale.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="linear")).to_be_checked()
    expect(page).to_have_url(f"{dashboard}/launch?scale=linear")


def test_canvases_say_what_they_show(page: Page, dashboard: str) -> None:
    for path in ("graph?experiment=fork-join", "timeline?experiment=fork-join"):
        page.goto(f"{dashboard}/{path}")
        name = path.partition("?")[0]
        stage = page.locator(f".{'dag' if name == 'graph' else name} canvas").first
        expect(stage).to_have_attribute("aria-label", _ANY)
        expect(stage).to_have_attribute("role", _ANY)
        expect(stage).to_have_attribute("tabindex", "0")
