from __future__ import annotations

from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.ui.standing import follow
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

ADDRESSES: Final = (
    "",
    "compare?experiment=mlp-train",
    "graphs?experiment=recorded-server",
    "graph?experiment=experts&run=parallel&graph=graph-0&against=graph:graph-0",
    "timeline?experiment=mlp-train",
    "compile?experiment=compile-fixes&run=fixed-2",
    "memory?experiment=mlp-train",
    "ranks?experiment=tp-transformer",
    "launch?experiment=launch-h200",
    "doctor?experiment=sync-in-step",
    "export?experiment=mlp-train",
)
READY: Final = {
    "": ".bar-buttons button",
    ADDRESSES[3]: ".dag .save",
    ADDRESSES[4]: ".timeline .buttons button",
    ADDRESSES[10]: ".perfetto .row button",
}
"""Element that the script of a page makes last."""
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


class ButtonStyle(NamedTuple):
    address: str
    name: str
    kind: str
    style: str


def test_all_buttons_have_one_style_in_two_sizes(dashboard_tab: Page) -> None:
    dashboard_tab.set_viewport_size({"width": 1280, "height": 860})
    dashboard_tab.emulate_media(color_scheme="light")
    found = []
    for address in ADDRESSES:
        follow(dashboard_tab, address)
        expect(
            dashboard_tab.locator(READY.get(address, "h1, .dag, .timeline")).first
        ).to_be_visible()
        # The Overview reads traces for long.
        if address:
            idle(dashboard_tab)
        found += [
            ButtonStyle(address, **entry)
            for entry in dashboard_tab.evaluate(LIST_STYLES, PARTS_OF_FIELDS)
        ]
    assert {button.kind for button in found} == {"page", "component", "fold"}
    allowed = {
        "page": {LARGE.format(BORDER)},
        "component": {size.format(edge) for size in (LARGE, SMALL) for edge in (BORDER, "filled")},
        "fold": {FOLD.format(BORDER)},
    }
    assert [button for button in found if button.style not in allowed[button.kind]] == []
