from __future__ import annotations

from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.ui.standing import follow
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

FOLDS: Final = '.more > summary, [data-testid="stExpander"] summary'
READY: Final = {
    "graphs?experiment=recorded-server": FOLDS,
    "graph?experiment=experts&run=parallel&graph=graph-0&against=graph:graph-0": ".dag .save",
    "compile?experiment=compile-fixes&run=fixed-2": FOLDS,
}
"""Pages with buttons that those of test_every_page.py lack, and an element to wait for."""
PARTS_OF_FIELDS: Final = ", ".join(
    f'[data-testid="{name}"] *'
    for name in (
        "stButtonGroup",
        "stSelectbox",
        "stMultiSelect",
        "stNumberInput",
        "stElementToolbar",
        "stMainMenu",
        "stWidgetLabel",
        "stStatusWidget",
    )
)
"""Choices of one or several values, and buttons inside fields and tables."""
LIST_STYLES: Final = """
fields => {
  const roots = [document], styles = []
  for (const root of roots) {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) roots.push(element.shadowRoot)
      const isFold = element.matches('.more > summary, [data-testid="stExpander"] summary')
      if (!isFold && !element.matches("button, .save > summary")) continue
      if (element.matches(fields + ", .end, .close") || !element.clientWidth) continue
      if (!element.checkVisibility({visibilityProperty: true})) continue
      const box = isFold ? element.parentElement : element
      const label = element.querySelector("p") ?? element
      const frame = getComputedStyle(box)
      const {fontSize, fontWeight, fontFamily} = getComputedStyle(label)
      const edge = `${frame.borderTopWidth} ${frame.borderTopColor}`
      styles.push({
        name: element.innerText.trim() || element.title || element.ariaLabel,
        kind: isFold ? "fold" : root === document ? "page" : "component",
        style: [
          Math.round(element.getBoundingClientRect().height), frame.borderRadius,
          element.matches(".primary") ? "filled" : edge,
          fontSize, fontWeight, fontFamily.split(",")[0],
        ].join(", "),
      })
    }
  }
  return styles
}
"""
BORDER: Final = "1px rgb(223, 227, 236)"
LARGE: Final = "38, 8px, {}, 13.125px, 400, Inter"
FOLD: Final = "36, 8px, {}, 13.125px, 400, Inter"
"""The frame around it makes it as high as a button."""
SMALL: Final = "26, 6px, {}, 12px, 400, Inter"
"""Buttons of a drawing, and those next to it."""


ALLOWED: Final = {
    "page": {LARGE.format(BORDER)},
    "component": {size.format(edge) for size in (LARGE, SMALL) for edge in (BORDER, "filled")},
    "fold": {FOLD.format(BORDER)},
}


class ButtonStyle(NamedTuple):
    name: str
    kind: str
    style: str


def list_buttons(page: Page) -> list[ButtonStyle]:
    """Return the visible buttons and folds of a page in light colours."""
    return [ButtonStyle(**entry) for entry in page.evaluate(LIST_STYLES, PARTS_OF_FIELDS)]


def list_odd_buttons(buttons: list[ButtonStyle]) -> list[ButtonStyle]:
    """Return the buttons that have neither of the two sizes or another style."""
    return [button for button in buttons if button.style not in ALLOWED[button.kind]]


@pytest.mark.parametrize("address", READY)
def test_all_buttons_have_one_style_in_two_sizes(dashboard_tab: Page, address: str) -> None:
    follow(dashboard_tab, address)
    expect(dashboard_tab.locator(READY[address]).first).to_be_visible()
    idle(dashboard_tab)
    found = list_buttons(dashboard_tab)
    assert {button.kind for button in found} >= {"page", "fold"}
    assert list_odd_buttons(found) == []
