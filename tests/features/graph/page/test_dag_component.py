from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.appearance import turn
from tests.ui.standing import follow
from tests.ui.tabs import THEMES
from tests.ui.waits import idle, shown_for_a_moment

pytestmark = pytest.mark.ui


def follow_to_graph(page: Page, query: str) -> Locator:
    """As a link leads to it, in a tab that stands."""
    follow(page, f"graph?{query}")
    return drawn(page)


def drawn(page: Page) -> Locator:
    canvas = page.locator(".dag canvas")
    expect(canvas).to_have_attribute("data-boxes", re.compile(r"[1-9]"))
    idle(page)
    canvas.scroll_into_view_if_needed()
    return canvas


def ask(canvas: Locator, code: str) -> Any:
    parts = "const dag = canvas.__dag, { state, viewport, loader, renderer } = dag;"
    return canvas.evaluate(f"canvas => {{ {parts} return {code}; }}")


def click(canvas: Locator, which: str) -> None:
    canvas.page.wait_for_function(
        "({ __dag: dag }) => !dag.renderer.tween && !dag.loader.viewRequest",
        arg=canvas.element_handle(),
    )
    # By its place in the drawing: the page above may still take another height, as fonts come.
    place = ask(
        canvas,
        f"(at => at && (corner => ({{x: at.x - corner.left, y: at.y - corner.top}}))"
        f"(canvas.getBoundingClientRect()))(dag.getPosition({which}))",
    )
    assert place is not None, f"{which} is not shown"
    canvas.click(position=place)


def test_a_group_unfolds_where_it_is_and_folds_again(dashboard_tab: Page) -> None:
    canvas = follow_to_graph(dashboard_tab, "experiment=transformer-train&run=graph")
    for theme in reversed(THEMES):
        turn(dashboard_tab, theme)
        unfold_and_fold(dashboard_tab, canvas)


def unfold_and_fold(page: Page, canvas: Locator) -> None:
    group = ask(canvas, "state.view.boxes.find(box => box.label === 'layers.0' && !box.open).id")
    before = ask(canvas, f"dag.getPosition({group!r})")
    shown = int(canvas.get_attribute("data-boxes") or 0)
    click(canvas, repr(group))
    page.wait_for_function(
        "([canvas, shown]) => Number(canvas.dataset.boxes) > shown",
        arg=[canvas.element_handle(), shown],
    )
    box = ask(canvas, f"state.byId.get({group!r})")
    assert box["open"]
    zoom, x, y = ask(canvas, "[viewport.zoom, viewport.x, viewport.y]")
    bounds = canvas.bounding_box()
    assert bounds is not None
    # Its upper left corner stays where it was: the pointer is still on the group.
    assert bounds["x"] + x + box["x"] * zoom <= before["x"]
    assert abs(bounds["y"] + y + box["y"] * zoom - before["y"]) < 60
    click(canvas, repr(group))
    expect(canvas).to_have_attribute("data-boxes", str(shown))


def test_a_slash_leads_to_the_search_unless_somebody_writes_and_a_click_to_a_card(
    dashboard_tab: Page,
) -> None:
    canvas = follow_to_graph(dashboard_tab, "experiment=fork-join&run=graph")
    search = dashboard_tab.locator(".dag .search")
    dashboard_tab.get_by_role("button", name="Fit").click()
    dashboard_tab.keyboard.press("/")
    expect(search).to_be_focused()
    expect(search).to_have_value("")
    dashboard_tab.keyboard.press("/")
    expect(search).to_have_value("/")
    search.fill("")
    # The address keeps what is clicked.
    click(canvas, "12")
    card = dashboard_tab.locator(".node").first
    expect(card).to_contain_text("node 12")
    expect(card).to_contain_text("collectors/workloads/fork_join.py:")
    expect(card).to_contain_text("Branch#2")
    expect(canvas).to_have_attribute("data-selected", "12")
    expect(dashboard_tab).to_have_url(re.compile("node=12"))
    dashboard_tab.reload()
    expect(dashboard_tab.locator(".node").first).to_contain_text("node 12")


@pytest.fixture
def tall_tab(dashboard_tab: Page) -> Iterator[Page]:
    """A tab that is tall enough to draw every node of a small graph."""
    size = dashboard_tab.viewport_size
    assert size is not None
    dashboard_tab.set_viewport_size({"width": size["width"], "height": 1100})
    yield dashboard_tab
    dashboard_tab.set_viewport_size(size)


def test_keyboard_walks_along_the_edges(tall_tab: Page) -> None:
    page = tall_tab
    canvas = follow_to_graph(page, "experiment=mlp-train&run=graph")
    canvas.focus()
    expect(canvas).to_be_focused()
    page.keyboard.press("ArrowDown")
    first = ask(canvas, "state.focus")
    page.keyboard.press("ArrowDown")
    second = ask(canvas, "state.focus")
    assert (first, second) == ("n0", "n1")
    page.keyboard.press("ArrowUp")
    assert ask(canvas, "state.focus") == "n0"
    page.keyboard.press("Enter")
    expect(page.locator(".node").first).to_contain_text("node 0")
    zoom = ask(canvas, "viewport.zoom")
    page.keyboard.press("+")
    assert ask(canvas, "viewport.zoom") > zoom
    page.keyboard.press("f")
    page.keyboard.press("Escape")
    expect(page.get_by_text("Longest nodes")).to_be_visible()


def looked_at(canvas: Locator) -> list[float]:
    """The point of the graph that is in the middle of the canvas."""
    point: list[float] = ask(
        canvas, "viewport.toGraphPoint(viewport.width / 2, viewport.height / 2)"
    )
    return point


def test_wheel_zooms_at_the_pointer_drag_pans_and_another_window_keeps_the_view(
    dashboard_tab: Page,
) -> None:
    page = dashboard_tab
    page.set_viewport_size({"width": 360, "height": 800})
    canvas = follow_to_graph(page, "experiment=fork-join&run=graph")
    # Who looked at all of it sees all of it, laid out for the window as it is now.
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function(
        "({ __dag: { loader, viewport } }) =>"
        " Math.abs(loader.layoutRatio - viewport.aspectRatio) < 0.1",
        arg=canvas.element_handle(),
    )
    expect(canvas).to_have_attribute("data-boxes", re.compile(r"[1-9]"))
    page.wait_for_function(
        "canvas => !canvas.__dag.loader.viewRequest && canvas.__dag.viewport.isHome",
        arg=canvas.element_handle(),
    )
    assert ask(canvas, "state.view.width * viewport.zoom > 0.5 * viewport.width")
    place = ask(canvas, "dag.getPosition(5)")
    page.mouse.move(place["x"], place["y"])
    zoom = ask(canvas, "viewport.zoom")
    # Until the reader has clicked into the drawing the wheel scrolls the page, as over a map.
    page.get_by_test_id("stMain").evaluate(
        "main => { window.scrolled = new Promise(done => main.onscrollend = () => done(true)) }"
    )
    with shown_for_a_moment(page.locator(".dag .wheel")):
        page.mouse.wheel(0, 200)
    assert page.evaluate("window.scrolled")
    assert ask(canvas, "viewport.zoom") == zoom
    place = ask(canvas, "dag.getPosition(5)")
    page.mouse.move(place["x"], place["y"])
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(
        "([canvas, zoom]) => canvas.__dag.viewport.zoom > zoom", arg=[canvas.element_handle(), zoom]
    )
    moved = ask(canvas, "dag.getPosition(5)")
    assert moved["x"] == pytest.approx(place["x"], abs=2)
    assert moved["y"] == pytest.approx(place["y"], abs=2)
    page.mouse.down()
    page.mouse.move(place["x"] + 80, place["y"] + 40, steps=4)
    page.mouse.up()
    panned = ask(canvas, "dag.getPosition(5)")
    assert panned["x"] - moved["x"] == pytest.approx(80, abs=2)
    assert ask(canvas, "state.selected") is None
    middle, width = looked_at(canvas), ask(canvas, "viewport.width")
    page.set_viewport_size({"width": 1100, "height": 900})
    page.wait_for_function(
        "([canvas, width]) => canvas.__dag.viewport.width < width",
        arg=[canvas.element_handle(), width],
    )
    assert looked_at(canvas) == pytest.approx(middle, abs=2)


def test_search_unfolds_to_its_hits(dashboard_tab: Page) -> None:
    canvas = follow_to_graph(dashboard_tab, "experiment=transformer-train&run=graph")
    dashboard_tab.locator(".dag .search").fill("layers.2.mlp")
    expect(canvas).to_have_attribute("data-hits", re.compile(r"[1-9]"))
    dashboard_tab.wait_for_function(
        "canvas => canvas.__dag.state.hits.index === 0", arg=canvas.element_handle()
    )
    node = ask(canvas, "state.hits.list[0]")
    dashboard_tab.wait_for_function(
        "([canvas, node]) => canvas.__dag.getPosition(node) !== null",
        arg=[canvas.element_handle(), node],
    )
    # Folded groups say how many they hold; what holds none fades.
    held = ask(
        canvas,
        "state.view.boxes.filter(box => !box.open).map(box => state.hits.countIn(box))",
    )
    assert 0 in held
    assert sum(held) > 1
    dashboard_tab.locator(".dag .search").press("Enter")
    dashboard_tab.wait_for_function(
        "canvas => canvas.__dag.state.hits.index === 1", arg=canvas.element_handle()
    )
    expect(dashboard_tab).to_have_url(re.compile("find=layers.2.mlp"))
    dashboard_tab.locator(".dag .search").fill("")
    expect(dashboard_tab).not_to_have_url(re.compile("find="))


COLOURINGS = {
    "op": ("operator", "aten::mm"),
    "kind": ("kind", "Kernel"),
    "module": ("module", "Transformer.layers"),
    "slack": ("slack", "critical path"),
    "eager": ("eager vs graph", "within 10% of eager"),
    "category": ("kernel category", "gemm"),
    "time": ("time", "under 2 µs"),
}
"""The selection and the legend of each colouring."""


def test_every_colouring_has_its_legend_in_both_themes(dashboard_tab: Page) -> None:
    # The first by its address, the others by choice: a page that stands is soon drawn anew.
    canvas = follow_to_graph(dashboard_tab, "experiment=transformer-train&run=graph&colour=phase")
    labels = ask(canvas, "state.view.legend.map(entry => entry.label)")
    assert labels == ["forward", "backward", "optimizer"]
    legend_shown = dashboard_tab.locator(".dag .legend")
    for colour, (choice, label) in COLOURINGS.items():
        choose_colour(dashboard_tab, choice)
        expect(legend_shown).to_contain_text(label)
        dashboard_tab.wait_for_function(
            "([canvas, colour]) => canvas.__dag.state.colour === colour",
            arg=[canvas.element_handle(), colour],
        )
        legend = ask(canvas, "state.view.legend.map(entry => entry.label)")
        assert any(label in entry for entry in legend), colour
        for place, entry in enumerate(legend):
            expect(legend_shown.locator(".chip").nth(place)).to_have_text(entry)
    turn(dashboard_tab, "dark")
    choose_colour(dashboard_tab, "phase")
    expect(legend_shown).to_contain_text("optimizer")
    assert ask(canvas, "state.view.legend.map(entry => entry.label)") == labels
    choose_colour(dashboard_tab, "time")
    expect(legend_shown).to_contain_text("under 2 µs")


def choose_colour(page: Page, choice: str) -> None:
    idle(page)
    page.get_by_role("combobox", name="Colour by").click()
    page.get_by_role("option", name=choice, exact=True).click()
