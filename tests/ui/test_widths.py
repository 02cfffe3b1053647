"""No control covers another, none leaves the window, and no page scrolls sideways, at any width."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.ui.test_keyboard import PAGES
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

WIDTHS = (360, 480, 640, 800, 921, 1081, 1100, 1161, 1240, 1281, 1366, 1424, 1440, 1468, 1536, 1920)
WIDER = 2560
MOST_TO_SAY = 5

COVERED = """
() => {
  const wrong = []
  const bar = document.querySelector(".st-key-top-bar")
  const sideways = document.scrollingElement.scrollWidth - innerWidth
  if (sideways > 1) wrong.push(`the page is ${sideways} px wider than the window`)
  const name = part => (part.getAttribute("aria-label") || part.textContent || part.tagName)
    .trim().slice(0, 40)
  const kinds = 'a[href], button, input, [role="radio"], summary, .badge'
  const controls = document.querySelectorAll(kinds)
  for (const control of controls) {
    const box = control.getBoundingClientRect()
    const seen = box.width > 1 && box.height > 1 && !control.closest("[aria-hidden=true]")
    const visible = {visibilityProperty: true, opacityProperty: true}
    if (!seen || !control.checkVisibility(visible)) continue
    // What scrolls inside a box of its own, such as a table, may be out of sight there.
    let scroller = control.parentElement
    while (scroller && !/(auto|scroll|hidden)/.test(getComputedStyle(scroller).overflowX)) {
      scroller = scroller.parentElement
    }
    const frame = scroller ? scroller.getBoundingClientRect() : {left: 0, right: innerWidth}
    const clipped = scroller && scroller !== document.body && frame.right < box.right - 1
    if (!clipped && (box.right > innerWidth + 1 || box.left < -1)) {
      wrong.push(`${name(control)} leaves the window`)
      continue
    }
    const middle = [box.left + box.width / 2, box.top + box.height / 2]
    const below = bar ? bar.getBoundingClientRect().bottom : 0
    const [x, y] = middle
    if (y >= innerHeight || y < 0 || x < 0 || x > innerWidth) continue
    if (!bar?.contains(control) && y < below) continue
    const top = document.elementFromPoint(...middle)
    const related = top && (control.contains(top) || top.contains(control)
      || control.closest("label")?.contains(top) || top.shadowRoot)
    const above = top ? name(top) || top.className : "nothing"
    if (!related) wrong.push(`${name(control)} lies under ${above}`)
  }
  return wrong
}
"""


@pytest.mark.parametrize(
    "page_address", PAGES, ids=lambda address: address.partition("?")[0] or "overview"
)
def test_no_control_is_covered_at_any_width(
    page_address: str, browser: Browser, dashboard: str
) -> None:
    page = browser.new_page(viewport={"width": WIDER, "height": 900})
    page.goto(f"{dashboard}/{page_address}")
    expect(page.locator(PAGES[page_address]).first).to_be_visible()
    idle(page)
    wrong = {}
    for width in (WIDER, *reversed(WIDTHS)):
        page.set_viewport_size({"width": width, "height": 900})
        # Charts lay themselves out anew in the frames that follow.
        page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 150)))"
        )
        idle(page)
        if covered := page.evaluate(COVERED):
            wrong[width] = covered[:MOST_TO_SAY]
    page.close()
    assert wrong == {}
