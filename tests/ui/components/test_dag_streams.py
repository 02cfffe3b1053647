"""A graph by what its data needs, in a real browser: dependencies, streams, what each is for."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Locator, expect

from tests.ui.components.test_dag_component import ask, open_graph
from tests.ui.standing import follow
from tests.ui.tabs import tab

pytestmark = pytest.mark.ui


def links(canvas: Locator) -> list[tuple[str, str]]:
    """The edges as drawn, by the boxes that they join."""
    pairs = ask(canvas, "dag.view.links.map(link => [link.source, link.target])")
    return [(source, target) for source, target in pairs]


def test_experts_stand_side_by_side_by_their_data(visitor: BrowserContext, dashboard: str) -> None:
    """The captured graph is a line; by its data experts need the same input and not each other."""
    errors: list[str] = []
    with tab(visitor, 1440, 900) as page:
        page.on("pageerror", lambda error: errors.append(str(error)))
        query = "experiment=experts&run=graph&colour=stream&node=12"
        canvas = open_graph(page, dashboard, query)
        state = page.locator(".dag .state")
        expect(state).to_contain_text("76 nodes, 75 edges")
        assert [target for source, target in links(canvas) if source == "n0"] == ["n1"]
        page.locator(".buttons button", has_text="By data").click()
        expect(state).to_contain_text("76 nodes, 105 edges")
        drawn = links(canvas)
        # The layer's norm is read by its gate and by each of its eight experts.
        assert [target for source, target in drawn if source == "n0"] == [
            "n1", *(f"n{first}" for first in range(3, 35, 4))
        ]  # fmt: skip
        assert ("n6", "n7") not in drawn
        assert ask(canvas, "new Set(dag.view.boxes.map(box => box.colour)).size") == 8
        expect(page.locator(".dag .legend")).to_contain_text("stream 7")
        card = page.locator(".node")
        expect(card).to_contain_text("reads what it wrote: float16 [32, 1024], 64.0 KiB")
        follow(page, "timeline?experiment=experts&runs=graph&runs=parallel")
        timeline = page.locator("canvas[aria-label^='Timeline of']")
        expect(timeline).to_have_attribute("data-complete", "yes")
        lanes = timeline.evaluate(
            "c => c.__timeline.layout.blocks.map(b => b.lanes.filter(l => l.lane.kind === 'gpu')"
            ".length)"
        )
        assert lanes[0] == 1
        assert lanes[1] > 1
    assert errors == []
