"""Every page, visited once: complete, without errors or requests to other hosts; no control is
covered at any width, and Tab reaches all. test_looks.py covers pages with pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from graphviz_dash.documentation import build_url
from graphviz_dash.ui.page.navigation import NAMES
from graphviz_dash.ui.page.registry import PAGES as REGISTRY
from tests.ui.appearance import (
    SHIFTS,
    STILL,
    assert_fits_when_narrow,
    broken_rules,
    is_light,
    turn,
)
from tests.ui.standing import follow, lent
from tests.ui.tabs import THEMES, Overheard, tab
from tests.ui.test_buttons import list_buttons, list_odd_buttons
from tests.ui.test_looks import CHART, VIEWS
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

PAGES: Final = {
    "overview": ("", ".hero"),
    "compare": ("compare?experiment=transformer-train", "table.figures"),
    "graphs": ("graphs?experiment=fork-join", ".empty"),
    "graph": ("graph?experiment=fork-join&node=30", ".dag canvas[data-boxes]"),
    "timeline": ("timeline?experiment=fork-join", ".timeline canvas[data-painted]"),
    "compile": ("compile?experiment=compile-fixes", ".program [role=treeitem]"),
    "memory": ("memory?experiment=gpt-train", CHART),
    "ranks": ("ranks?experiment=tp-transformer", CHART),
    "launch": ("launch", CHART),
    "doctor": ("doctor?experiment=sync-in-step", ".badge"),
    "export": ("export?experiment=mlp-train", ".perfetto button"),
}
"""Each page with an experiment that it can draw, and an element to wait for."""

MADE_LAST: Final = {
    "timeline": ".timeline .buttons button",
    "export": ".perfetto .row button",
}
"""Button that the script of a component makes last."""

WIDTHS: Final = (2560, 1241, 1100, 921, 701, 641, 481, 441, 360)
"""Narrowest windows of each layout of a page in the style sheets and Streamlit, and the widest
common screen."""
BAR_WIDTHS: Final = (1681, 1441, 1424, 841)
"""Narrowest windows of further layouts of the bar at the top, and a laptop's window in which it
once broke. They begin no layout of a page.

The links use one or two rows between 921 and 1240.
"""
BARS: Final = ("overview", "graphs", "export")
"""Pages with all kinds of bars, which are the same on the other pages."""
MOST_TO_SAY: Final = 5

MOST_PRESSES: Final = 260
"""Presses of Tab; a table takes one for each column."""
AT_ONCE: Final = 10

KEYBOARD: Final = """
window.deep = (root, found = []) => {
  for (const one of root.querySelectorAll("*")) {
    found.push(one)
    if (one.shadowRoot) deep(one.shadowRoot, found)
  }
  return found
}
// A group of radio buttons or pills is one stop; the arrows lead on inside it. So is a table, which
// leads the focus on from its canvas to a cell within it, and may have another canvas once its
// columns were measured again.
const TABLE = '[data-testid="stDataFrame"]'
const GROUPS = '[role="radiogroup"], [data-testid="stButtonGroup"]'
window.groupOf = one => one.closest(one.closest("canvas") ? TABLE : GROUPS) ?? one
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
window.active = () => {
  let one = document.activeElement
  while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement
  return one
}
window.focused = () => {
  const one = active()
  if (!one || one === document.body) return null
  window.reached.add(groupOf(one))
  // A table draws its cursor itself, on its canvas.
  const table = one.closest('[data-testid="stDataFrame"]') !== null
  const around = [one, one.parentElement, one.parentElement?.parentElement].filter(Boolean)
  return {name: named(one), seen: table || around.some(near => looks(near) !== near.looks)}
}
window.reached = new Set()
// The target of a press of Tab is examined when the next press begins: asking after each is slower.
window.unseen = []
window.begun = window.ended = false
window.note = () => {
  const now = window.begun && !window.ended ? focused() : undefined
  if (now === null) window.ended = true
  if (now && !now.seen) window.unseen.push(now.name)
  window.begun = true
}
if (!window.listens) addEventListener("keydown", ({key}) => { if (key === "Tab") note() }, true)
window.listens = true
// Where another page was left is no place to begin at.
const top = Object.assign(document.createElement("span"), {tabIndex: -1})
document.body.prepend(top)
top.focus()
top.remove()
"""

LAID_OUT: Final = """
() => [...document.querySelectorAll(".js-plotly-plot")].every(chart => !chart.checkVisibility() ||
  Math.abs(chart.querySelector(".main-svg").getBoundingClientRect().width - chart.clientWidth) < 1)
"""
"""True once every visible chart is as wide as its place: charts follow it some frames later."""

TWO_FRAMES: Final = "() => (window.frame = (window.frame ?? -1) + 1) >= 2 && delete window.frame"
"""True after two frames, if asked in each."""

COVERED: Final = """
() => {
  const wrong = []
  const bar = document.querySelector(".st-key-top-bar")
  const sideways = document.scrollingElement.scrollWidth - innerWidth
  if (sideways > 1) wrong.push(`the page is ${sideways} px wider than the window`)
  const main = document.querySelector('[data-testid="stMain"]')
  if (main.scrollWidth > main.clientWidth + 1) {
    wrong.push(`the content of the page is ${main.scrollWidth - main.clientWidth} px wider than it`)
  }
  const {top: barTop, bottom: barEnd} = bar.getBoundingClientRect()
  for (const part of bar.querySelectorAll("a, img, input")) {
    const {top, bottom} = part.getBoundingClientRect()
    if (top < barTop || bottom > barEnd) wrong.push(`${part.textContent} leaves the bar`)
  }
  // As Streamlit's front end says that a page is being made.
  const status = document.createElement("div")
  status.dataset.testid = "stStatusWidget"
  status.textContent = "Stop"
  document.querySelector('[data-testid="stHeader"]').append(status)
  if (status.getBoundingClientRect().top < bar.getBoundingClientRect().bottom) {
    wrong.push("the status of a page that is made covers the bar")
  }
  status.remove()
  // A path has no place to break a line at.
  for (const hero of document.querySelectorAll(".hero")) {
    const small = hero.querySelector("small")
    if (small) small.textContent = "transformers/models/qwen2/modeling_qwen2_moe.py:610"
    if (hero.scrollWidth > hero.clientWidth + 1) wrong.push("a hero is wider than its card")
  }
  const name = part => (part.getAttribute("aria-label") || part.textContent || part.tagName)
    .trim().slice(0, 40)
  const kinds = 'a[href], button, input, [role="radio"], summary, .badge'
  const controls = document.querySelectorAll(kinds)
  for (const control of controls) {
    const box = control.getBoundingClientRect()
    const seen = box.width > 1 && box.height > 1 && !control.closest("[aria-hidden=true]")
    const visible = {visibilityProperty: true, opacityProperty: true}
    if (!seen || !control.checkVisibility(visible)) continue
    // Content that scrolls inside a box, such as a table or a card, may be out of sight there.
    let frame = {left: 0, right: innerWidth, top: 0, bottom: innerHeight}, clipped = false
    for (let around = control.parentElement; around && around !== document.body;
      around = around.parentElement) {
      const {overflowX, overflowY} = getComputedStyle(around)
      if (overflowX === "visible" && overflowY === "visible") continue
      const edge = around.getBoundingClientRect()
      frame = {
        left: Math.max(frame.left, edge.left), right: Math.min(frame.right, edge.right),
        top: Math.max(frame.top, edge.top), bottom: Math.min(frame.bottom, edge.bottom),
      }
      clipped ||= around.scrollWidth > around.clientWidth + 1
    }
    // Choices are few, and take a second line instead.
    if (control.closest('[data-testid="stButtonGroup"]') && box.right > frame.right + 1) {
      wrong.push(`${name(control)} is cut off`)
      continue
    }
    if (!clipped && (box.right > innerWidth + 1 || box.left < -1)) {
      wrong.push(`${name(control)} leaves the window`)
      continue
    }
    const x = box.left + box.width / 2, y = box.top + box.height / 2
    if (x <= frame.left || x >= frame.right || y <= frame.top || y >= frame.bottom) continue
    const below = bar ? bar.getBoundingClientRect().bottom : 0
    if (!bar?.contains(control) && y < below) continue
    const top = document.elementFromPoint(x, y)
    if (!top) continue
    const related = (control.contains(top) || top.contains(control)
      || control.closest("label")?.contains(top) || top.shadowRoot)
    if (!related) wrong.push(`${name(control)} is under ${name(top) || top.className}`)
  }
  return wrong
}
"""


@dataclass(frozen=True)
class Visit:
    name: str
    page: Page
    """The page, drawn and at rest."""
    overheard: Overheard


@pytest.fixture(scope="module", params=PAGES)
def visit(
    request: pytest.FixtureRequest, visitor: BrowserContext, dashboard: str, tab_of_dashboard: Page
) -> Iterator[Visit]:
    """Each page, visited once for all its tests, and loaded if test_looks.py does not load it."""
    address, drawn = PAGES[request.param]
    if request.param in VIEWS:
        with lent(tab_of_dashboard) as page:
            overheard = Overheard(page, dashboard)
            follow(page, address)
            at_rest(page, drawn)
            yield Visit(request.param, page, overheard)
        return
    with tab(visitor) as page:
        page.add_init_script(SHIFTS)
        overheard = Overheard(page, dashboard)
        page.goto(f"{dashboard}/{address}")
        at_rest(page, drawn)
        yield Visit(request.param, page, overheard)


def at_rest(page: Page, drawn: str) -> None:
    page.locator(drawn).first.wait_for()
    idle(page)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)


def test_every_page_is_visited() -> None:
    assert sorted(PAGES) == sorted(NAMES)


def test_it_is_drawn(visit: Visit) -> None:
    expect(visit.page.locator(".pages [aria-current]")).to_be_visible()
    assert visit.page.locator('[data-testid="stException"]').count() == 0


@pytest.mark.parametrize("visit", [name for name in PAGES if name != "graph"], indirect=True)
def test_its_buttons_have_one_style_in_two_sizes(visit: Visit) -> None:
    """test_buttons.py looks at the page of a graph without a selected node."""
    expect(visit.page.locator(MADE_LAST.get(visit.name, "h1")).first).to_be_visible()
    found = list_buttons(visit.page)
    kinds = {button.kind for button in found}
    assert kinds >= ({"page", "component"} if visit.name in MADE_LAST else {"page"})
    assert list_odd_buttons(found) == []


@pytest.mark.parametrize("visit", [name for name in PAGES if name not in VIEWS], indirect=True)
def test_it_does_not_jump_while_it_loads(visit: Visit) -> None:
    assert visit.page.evaluate("window.shifts") < STILL


@pytest.mark.parametrize("visit", [name for name in PAGES if name not in VIEWS], indirect=True)
def test_it_is_accessible_in_both_themes(visit: Visit) -> None:
    page = visit.page
    label = page.locator(".js-plotly-plot .xtick text").first
    has_charts = PAGES[visit.name][1] == CHART
    light = label.evaluate("label => getComputedStyle(label).fill") if has_charts else ""
    for theme in reversed(THEMES):
        turn(page, theme)
        if has_charts and theme == "light":
            expect(label).to_have_css("fill", light)
        elif has_charts:
            expect(label).not_to_have_css("fill", light)
        assert is_light(page) == (theme == "light")
        assert page.locator('[data-testid="stException"]').count() == 0
        # Rules on other matters than colours were checked in the first of them.
        assert broken_rules(page, of_colours=theme != THEMES[-1]) == []
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
    page.emulate_media(color_scheme="light", reduced_motion="no-preference")


@pytest.mark.parametrize("visit", [name for name in PAGES if name not in VIEWS], indirect=True)
def test_it_fits_when_narrow(visit: Visit) -> None:
    assert_fits_when_narrow(visit.page, 860)
    visit.page.set_viewport_size({"width": 1280, "height": 860})
    idle(visit.page)


def test_tab_reaches_every_control(visit: Visit) -> None:
    page = visit.page
    page.evaluate(KEYBOARD)
    page.evaluate("atRest()")
    for _ in range(0, MOST_PRESSES, AT_ONCE):
        for _ in range(AT_ONCE):
            page.keyboard.press("Tab")
        if page.evaluate("ended"):
            break
    unseen = page.evaluate("note() ?? unseen")
    # Some presses more have begun again at the top.
    page.evaluate("active()?.blur()")
    assert unseen == []
    missed = page.evaluate("controls().filter(one => !reached.has(one)).map(named)")
    assert missed == []


def test_no_control_is_covered_at_any_width(visit: Visit) -> None:
    page = visit.page
    wrong = {}
    for width in (*WIDTHS, *(BAR_WIDTHS if visit.name in BARS else ())):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(LAID_OUT)
        # Canvases and tables look at their places again when a frame begins.
        page.wait_for_function(TWO_FRAMES)
        idle(page)
        if covered := page.evaluate(COVERED):
            wrong[width] = covered[:MOST_TO_SAY]
    assert wrong == {}


def test_its_help_leads_to_its_section(visit: Visit) -> None:
    page, row = visit.page, REGISTRY[visit.name]
    page.set_viewport_size({"width": 1280, "height": 860})
    expect(page.locator(".pages [aria-current]")).to_have_text(
        REGISTRY[row.tab_of or visit.name].title
    )
    idle(page)
    page.locator(".st-key-help button").first.click()
    link = page.get_by_role("link", name=f"Help on {row.title}")
    expect(link).to_have_attribute("href", build_url(row.help))
    page.keyboard.press("Escape")


def test_it_logs_no_error(visit: Visit) -> None:
    assert visit.overheard.errors == []


def test_it_asks_this_server_alone(visit: Visit) -> None:
    assert visit.overheard.foreign == []


def test_tables_are_read_on_a_phone_without_scrolling(tab_of_dashboard: Page) -> None:
    beyond = "table => table.scrollWidth - table.parentElement.clientWidth"
    with lent(tab_of_dashboard) as page:
        page.set_viewport_size({"width": 360, "height": 860})
        follow(page, "compare?experiment=recorded-lightning")
        table = page.locator("table.idle-time").first
        table.wait_for()
        idle(page)
        assert table.evaluate(beyond) <= 0
        follow(page, "compile?experiment=compile-fixes")
        program = page.locator(".program .space")
        program.locator(".row").first.wait_for()
        idle(page)
        assert program.evaluate(beyond) <= 0


def test_the_experiment_is_readable_on_a_phone(tab_of_dashboard: Page) -> None:
    with lent(tab_of_dashboard) as page:
        page.set_viewport_size({"width": 360, "height": 860})
        follow(page, "doctor?experiment=mlp-train")
        picker = page.locator('.st-key-top-bar [data-testid="stSelectbox"]')
        expect(picker).to_have_count(1)
        idle(page)
        box = picker.bounding_box()
        assert box is not None
        assert box["width"] >= 120
