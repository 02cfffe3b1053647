from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.features.graph.page.test_dag_component import ask, follow_to_graph
from tests.ui.standing import follow

pytestmark = pytest.mark.ui


def links(canvas: Locator) -> list[tuple[str, str]]:
    """The edges as drawn, by the boxes that they join."""
    pairs = ask(canvas, "state.view.links.map(link => [link.source, link.target])")
    return [(source, target) for source, target in pairs]


def test_experts_stand_side_by_side_by_their_data(dashboard_tab: Page) -> None:
    """The captured graph is a line; by its data experts need the same input and not each other."""
    dashboard_tab.set_viewport_size({"width": 1440, "height": 900})
    query = "experiment=experts&run=graph&colour=stream&node=12"
    canvas = follow_to_graph(dashboard_tab, query)
    state = dashboard_tab.locator(".dag .state")
    expect(state).to_contain_text("76 nodes, 75 edges")
    assert [target for source, target in links(canvas) if source == "n0"] == ["n1"]
    dashboard_tab.locator(".buttons button", has_text="Data dependencies").click()
    expect(state).to_contain_text("76 nodes, 105 edges")
    drawn = links(canvas)
    # The layer's norm is read by its gate and by each of its eight experts.
    assert [target for source, target in drawn if source == "n0"] == [
        "n1", *(f"n{first}" for first in range(3, 35, 4))
    ]  # fmt: skip
    assert ("n6", "n7") not in drawn
    expect(dashboard_tab.locator(".dag .legend")).to_contain_text("stream 7")
    dashboard_tab.wait_for_function(
        "canvas => new Set(canvas.__dag.state.view.boxes.map(box => box.colour)).size === 8",
        arg=canvas.element_handle(),
    )
    card = dashboard_tab.locator(".node").first
    expect(card).to_contain_text("reads its output: float16 [32, 1024], 64.0 KiB")
    follow(dashboard_tab, "timeline?experiment=experts&runs=graph&runs=parallel")
    timeline = dashboard_tab.locator("canvas[aria-label^='Timeline of']")
    expect(timeline).to_have_attribute("data-complete", "yes")
    lanes = timeline.evaluate(
        "c => c.__timeline.state.layout.blocks.map(b => b.lanes.filter(l => l.lane.kind === 'gpu')"
        ".length)"
    )
    assert lanes[0] == 1
    assert lanes[1] > 1
