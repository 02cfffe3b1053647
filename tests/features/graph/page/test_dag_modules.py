from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.features.graph.page.test_dag_component import ask, click, follow_to_graph
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

TRANSFORMER = "experiment=transformer-train&run=graph"


@pytest.fixture
def page(dashboard_tab: Page) -> Page:
    return dashboard_tab


def by_module(page: Page) -> Locator:
    return page.get_by_role("button", name="Fold by module path")


def labels(canvas: Locator) -> list[str]:
    found: list[str] = ask(canvas, "state.view.boxes.map(box => box.label)")
    return found


def folded(page: Page, canvas: Locator, by: str) -> None:
    expect(canvas).to_have_attribute("data-fold", by)
    expect(by_module(page)).to_have_attribute("aria-pressed", "true" if by == "module" else "false")
    wanted = "fold=module" if by == "module" else "^((?!fold=).)*$"
    expect(page).to_have_url(re.compile(wanted))
    idle(page)


def test_the_button_folds_by_module_and_back_and_what_is_seen_is_saved(
    page: Page, tmp_path: Path
) -> None:
    canvas = follow_to_graph(page, TRANSFORMER)
    before = labels(canvas)
    assert "no module" not in before
    expect(by_module(page)).to_have_attribute("aria-pressed", "false")
    by_module(page).click()
    folded(page, canvas, "module")
    shown = labels(canvas)
    assert [one for one in shown if one in ("forward", "Transformer", "backward", "optimizer")] == [
        "forward",
        "Transformer",
        "backward",
        "Transformer",
        "optimizer",
    ]
    assert "layers.0-3" in shown
    outside = ask(canvas, "state.view.boxes.find(box => box.label === 'no module').note")
    assert "launched outside any module call" in outside
    save_what_is_seen(page, canvas, tmp_path / "seen.dot")
    page.go_back()
    folded(page, canvas, "order")
    assert labels(canvas) == before


def save_what_is_seen(page: Page, canvas: Locator, file: Path) -> None:
    """Saves the graph, folded by modules, with backward folded too."""
    backward = ask(canvas, "state.view.boxes.find(box => box.label === 'backward').id")
    count = int(canvas.get_attribute("data-boxes") or 0)
    click(canvas, repr(backward))
    page.wait_for_function(
        "([canvas, count]) => Number(canvas.dataset.boxes) < count",
        arg=[canvas.element_handle(), count],
    )
    page.locator(".dag .save summary").click()
    with page.expect_download() as waited:
        page.get_by_role("button", name="Save as DOT").click()
    waited.value.save_as(file)
    text = file.read_text()
    assert all(label in text for label in labels(canvas))
    assert "launched outside any module call" in text
    # Of backward, which was folded, one box is left.
    assert f'"{backward}" [label="backward' in text


def test_the_key_keeps_what_is_selected_in_view_and_the_address_keeps_the_fold(page: Page) -> None:
    canvas = follow_to_graph(page, f"{TRANSFORMER}&node=150")
    # It is in a folded group, which its address unfolds.
    expect(canvas).to_have_attribute("data-selected", "150")
    assert ask(canvas, "dag.getPosition(150)") is not None
    expect(page.locator(".node").first).to_contain_text("node 150")
    canvas.focus()
    page.keyboard.press("m")
    folded(page, canvas, "module")
    assert ask(canvas, "dag.getPosition(150)") is not None
    expect(canvas).to_have_attribute("data-selected", "150")
    page.reload()
    folded(page, canvas, "module")
    expect(canvas).to_have_attribute("data-selected", "150")
    assert ask(canvas, "dag.getPosition(150)") is not None


def test_search_results_survive_another_folding(page: Page) -> None:
    canvas = follow_to_graph(page, f"{TRANSFORMER}&find=layers.2.mlp")
    expect(canvas).to_have_attribute("data-hits", re.compile("[1-9]"))
    found = canvas.get_attribute("data-hits")
    by_module(page).click()
    folded(page, canvas, "module")
    expect(canvas).to_have_attribute("data-hits", found or "")
    page.wait_for_function(
        "({ __dag: dag }) => dag.state.hits.index === 0 && dag.getPosition(dag.state.hits.list[0])",
        arg=canvas.element_handle(),
    )


def test_a_graph_without_modules_says_why(page: Page) -> None:
    follow_to_graph(page, "experiment=all-nodes&run=graph&fold=module")
    expect(page.locator(".dag .state")).to_contain_text("it was added through the graph API")
