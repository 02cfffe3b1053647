from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.features.graph.page.test_dag_component import ask, click, follow_to_graph
from tests.ui.standing import follow, lent
from tests.ui.waits import at_page, idle

pytestmark = pytest.mark.ui

TRANSFORMER = "experiment=transformer-train&run=graph"


@pytest.fixture
def page(dashboard_tab: Page) -> Page:
    return dashboard_tab


@pytest.fixture
def transformer(page: Page) -> Locator:
    """The graph of a model with a repeat, as the test before left it: all but the last leave it as
    it was."""
    if page.url.endswith(TRANSFORMER):
        return page.locator(".dag canvas")
    return follow_to_graph(page, TRANSFORMER)


def test_the_current_view_is_saved_in_each_format(transformer: Locator, tmp_path: Path) -> None:
    canvas, page = transformer, transformer.page
    saved = {}
    for kind in ("SVG", "PNG", "DOT"):
        page.locator(".dag .save summary").click()
        with page.expect_download() as waited:
            page.get_by_role("button", name=f"Save as {kind}").click()
        file = tmp_path / waited.value.suggested_filename
        waited.value.save_as(file)
        assert file.name == f"graph-graph-0.{kind.lower()}"
        saved[kind] = file
    labels = ask(canvas, "state.view.boxes.map(one => one.label)")
    told = "".join(ElementTree.fromstring(saved["SVG"].read_text()).itertext())
    assert all(label in told for label in labels)
    assert all(label in saved["DOT"].read_text() for label in labels)
    width, height = ask(canvas, "[state.view.width, state.view.height]")
    head = saved["PNG"].read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    size = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    assert size == (2 * width, 2 * height)


def test_the_map_leads_to_where_it_is_clicked(transformer: Locator) -> None:
    canvas, page = transformer, transformer.page
    ask(canvas, "dag.zoomBy(4)")
    before = ask(canvas, "[viewport.x, viewport.y]")
    bounds = canvas.bounding_box()
    assert bounds is not None
    page.mouse.click(bounds["x"] + bounds["width"] - 40, bounds["y"] + bounds["height"] - 30)
    after = ask(canvas, "[viewport.x, viewport.y]")
    assert after[0] < before[0]
    assert ask(canvas, "state.selected") is None
    canvas.focus()
    page.keyboard.press("f")
    page.wait_for_function(
        "({ __dag: dag }) => dag.viewport.isHome && !dag.renderer.tween",
        arg=canvas.element_handle(),
    )


def test_the_arrows_in_the_drawing_show_another_layer(transformer: Locator) -> None:
    canvas, page = transformer, transformer.page
    place = ask(
        canvas,
        "(() => { const at = canvas.getBoundingClientRect();"
        "const one = renderer.arrows.find(one => one.by === 1);"
        "return {x: at.left + viewport.x + (one.x + 10) * viewport.zoom,"
        " y: at.top + viewport.y + (one.y + 13) * viewport.zoom}; })()",
    )
    page.mouse.click(place["x"], place["y"])
    bar = page.locator(".dag .repeat")
    expect(bar).to_contain_text("2 of 4")
    bar.get_by_role("button", name="Previous block ( [ )").click()
    expect(bar).to_contain_text("1 of 4")


def test_one_layer_stands_for_all_and_another_can_be_shown(transformer: Locator) -> None:
    canvas, page = transformer, transformer.page
    bar = page.locator(".dag .repeat")
    expect(bar).to_contain_text("1 of 4")
    click(canvas, repr(ask(canvas, "state.view.boxes.find(one => one.label === 'layers.0').id")))
    page.wait_for_function(
        "canvas => canvas.__dag.state.byId.get('g.0.0.1.0')?.open", arg=canvas.element_handle()
    )
    opened = ask(canvas, "state.view.boxes.length")
    canvas.focus()
    page.keyboard.press("]")
    expect(bar).to_contain_text("2 of 4")
    expect(bar).to_contain_text("layers.1")
    # The other layer is unfolded as the first was.
    page.wait_for_function(
        """([canvas, opened]) => {
          const { boxes } = canvas.__dag.state.view;
          return boxes.length === opened && boxes.some(one => one.label === "layers.1" && one.open);
        }""",
        arg=[canvas.element_handle(), opened],
    )
    bar.get_by_role("button", name="Previous block ( [ )").click()
    expect(bar).to_contain_text("1 of 4")
    bar.locator("summary").click()
    expect(bar).to_contain_text("All blocks have the same kernels and launch shapes.")
    expect(bar).to_contain_text("Times: median")
    bar.get_by_role("button", name="Show all blocks").click()
    expect(bar).to_contain_text("all 4")
    labels = ask(canvas, "state.view.boxes.map(one => one.label)")
    assert {f"layers.{number}" for number in range(4)} <= set(labels)


def test_an_edge_is_told_on_demand(page: Page) -> None:
    canvas = follow_to_graph(page, "experiment=all-nodes&run=graph")
    place = ask(
        canvas,
        "(() => { const p = state.view.links.find(one => one.text).points,"
        " at = canvas.getBoundingClientRect();"
        "return {x: at.left + viewport.x + (p[0] + p[2]) / 2 * viewport.zoom,"
        " y: at.top + viewport.y + (p[1] + p[3]) / 2 * viewport.zoom}; })()",
    )
    page.mouse.move(place["x"], place["y"])
    expect(page.locator(".dag .tooltip")).to_contain_text("programmatic, port 1 to 0")
    page.mouse.click(place["x"], place["y"])
    card = page.locator(".dag .edges")
    expect(card).to_contain_text("waits for its programmatic launch completion")
    # An end leads to its node; the keyboard reaches the edges too.
    card.get_by_role("button", name="5 shift").click()
    expect(page.locator(".node").first).to_contain_text("node 5")
    expect(card).to_be_hidden()
    canvas.focus()
    page.keyboard.press("e")
    expect(card).to_contain_text("shift")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()


def test_the_selection_goes_to_the_timeline_and_back(page: Page) -> None:
    follow_to_graph(page, f"{TRANSFORMER}&node=30")
    expect(page.locator(".node").first).to_contain_text("node 30")
    idle(page)
    # Through the bar at the top, not a link of the card's own.
    page.get_by_role("link", name="Timeline", exact=True).click()
    # The node, and soon its slice, by which the timeline selects.
    expect(page).to_have_url(re.compile(r"select=graph(/|%2F)(graph-0(#|%23)30|g\d+)"))
    expect(page.get_by_text("Show node 30 in the graph")).to_be_visible()
    at_page(page, "timeline")
    page.get_by_role("link", name="Graph", exact=True).click()
    expect(page).to_have_url(re.compile("node=30"))
    expect(page.locator(".node").first).to_contain_text("node 30")
    page.go_back()
    expect(page).to_have_url(re.compile("timeline"))


def test_the_source_line_of_a_node_is_found_in_the_drawing(page: Page) -> None:
    canvas = follow_to_graph(page, "experiment=fork-join&run=graph&node=12")
    page.get_by_role("button", name="Find all nodes of this source line").click()
    expect(page).to_have_url(re.compile("find=.*fork_join.py"))
    page.wait_for_function(
        "({ __dag: dag }) => dag.state.hits.nodes.size > 1", arg=canvas.element_handle()
    )
    assert ask(canvas, "state.hits.nodes.has(12)")
    # The line is the first one above the drawing, with its code.
    lines = page.locator(".source-lines tbody tr")
    expect(lines.first.locator("[aria-current]")).to_have_text("x = torch.tanh(layer(x))")
    idle(page)
    lines.first.get_by_role("link").click()
    expect(page).not_to_have_url(re.compile("find="))


def test_source_lines_with_their_code_come_before_the_drawing(page: Page) -> None:
    canvas = follow_to_graph(page, "experiment=transformer-train&run=graph")
    lines = page.locator(".source-lines").first.locator("tbody tr")
    expect(lines).to_have_count(4)
    expect(lines.first).to_contain_text("result: torch.Tensor = x + self.mlp(self.norm_mlp(x))")
    table, drawing = lines.first.bounding_box(), canvas.bounding_box()
    assert table is not None
    assert drawing is not None
    assert table["y"] < drawing["y"]
    lines.nth(1).get_by_role("link", name="optimizer.step()").click()
    expect(page).to_have_url(re.compile("find=.*transformer.py"))
    page.wait_for_function(
        "({ __dag: dag }) => dag.state.hits.nodes.size === 124", arg=canvas.element_handle()
    )


@pytest.fixture
def large(tab_of_rare: Page) -> Iterator[Page]:
    """A tab of a server that has not yet seen the large graphs that it serves."""
    with lent(tab_of_rare) as page:
        yield page
        page.unroute_all(behavior="wait")


def test_a_large_graph_is_prepared_beside_the_page_and_can_be_cancelled(large: Page) -> None:
    # The view comes when the test lets it, so that there is time to cancel.
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    large.route("**/api/dag/view?*", hold)
    large.route(
        "**/api/dag/progress?*",
        lambda route: route.fulfill(json={"state": "running", "task": "Folding", "progress": 0.8}),
    )
    follow(large, "graph?experiment=chain&run=graph")
    waiting = large.locator(".dag .waiting")
    expect(waiting).to_contain_text("folding")
    search = large.locator(".dag .search")
    bar_before = search.bounding_box()
    expect(large.get_by_text("6,000 nodes, preparing")).to_be_visible()
    with large.expect_request("**/api/dag/cancel?*") as asked:
        waiting.get_by_role("button", name="Cancel preparing the graph").click()
    assert asked.value.method == "POST"
    expect(large.locator(".dag .problem")).to_contain_text("was cancelled")
    large.unroute("**/api/dag/view?*")
    large.unroute("**/api/dag/progress?*")
    large.get_by_role("button", name="Prepare the graph").click()
    canvas = large.locator(".dag canvas")
    expect(canvas).to_have_attribute("data-boxes", re.compile(r"[1-9]"))
    # The legend found its place free.
    assert search.bounding_box() == bar_before
    # Then the page tells what it had left to the drawing.
    expect(large.get_by_text("Longest nodes", exact=True)).to_be_visible()
    expect(large.get_by_text("6,000 nodes, 5,999 edges").first).to_be_visible()


def test_a_large_graph_is_drawn_first_and_its_times_follow(large: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    large.route("**/api/dag/complete?*", hold)
    follow(large, "graph?experiment=chain-again&run=graph")
    canvas = large.locator(".dag canvas")
    state = large.locator(".dag .state")
    expect(state).to_contain_text("loading times")
    group = ask(canvas, "state.view.boxes.filter(box => box.open).pop().id")
    assert ask(canvas, "state.view.boxes.every(box => box.time === '')")
    # Nobody has asked for its times yet: the request is held.
    expect(large.get_by_text("The longest nodes will appear")).to_be_visible()
    # It can be read, folded and unfolded meanwhile.
    click(canvas, repr(group))
    large.wait_for_function(
        "([canvas, id]) => !canvas.__dag.state.byId.get(id).open",
        arg=[canvas.element_handle(), group],
    )
    large.wait_for_function("canvas => !canvas.__dag.renderer.tween", arg=canvas.element_handle())
    corner = f"(({{ x, y }}) => [x, y])(state.byId.get({group!r}))"
    where = f"[viewport.x, viewport.y, viewport.zoom, ...{corner}]"
    place = ask(canvas, where)
    held[0].continue_()
    expect(state).not_to_contain_text("loading times")
    large.wait_for_function(
        "canvas => canvas.__dag.state.view.boxes.every(box => box.time !== '')",
        arg=canvas.element_handle(),
    )
    assert ask(canvas, where) == place
    expect(large.get_by_text("Longest nodes", exact=True)).to_be_visible()
