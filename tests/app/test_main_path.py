from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import BrowserContext, Page, expect

from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.app.cli.main import cli
from graphviz_dash.features.perfetto.trace.perfetto_check import check_trace
from tests.features.graph.page.test_dag_component import click
from tests.ui.tabs import Overheard, tab
from tests.ui.waits import at_page, idle

pytestmark = pytest.mark.ui


@pytest.fixture
def page(visitor: BrowserContext, dashboard: str) -> Iterator[Page]:
    with tab(visitor) as opened:
        overheard = Overheard(opened, dashboard)
        yield opened
    assert overheard.foreign == []
    assert overheard.errors == []


def compared(name: str) -> dict[str, float]:
    """Speedups of an experiment by run, as the command line gives them."""
    result = CliRunner().invoke(cli, ["compare", f"sample_traces/{name}", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    return {
        run["name"]: run["metrics"]["speedup"]["value"]
        for run in document["runs"]
        if run["metrics"]["speedup"]["value"] is not None
    }


def test_from_the_overview_to_a_node_a_kernel_and_a_trace(
    page: Page, dashboard: str, tmp_path: Path
) -> None:
    page.goto(f"{dashboard}?view=Cards")
    for name in ("decode", "fork-join", "mlp-train", "sync-in-step", "transformer-train"):
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(page.get_by_text("sync_in_step.py:15").first).to_be_visible()

    idle(page)
    card = page.locator(".card").filter(has=page.get_by_role("link", name="mlp-train", exact=True))
    card.get_by_role("link", name="Compare").click()
    expect(page).to_have_url(re.compile(r"/compare\?.*experiment=mlp-train"))
    speedup = METRICS["speedup"].format(compared("mlp-train")["graph"])
    tile = page.locator(".tile").filter(has_text="Speedup")
    expect(tile.locator(".value")).to_have_text(speedup)
    expect(page.locator(".answer")).to_contain_text(f"graph is {speedup} faster than eager")

    idle(page)
    # In a tall window no module is folded at first.
    page.set_viewport_size({"width": 1280, "height": 1400})
    page.get_by_role("link", name="Graph", exact=True).first.click()
    canvas = page.locator(".dag canvas")
    expect(canvas).to_have_attribute("data-boxes", re.compile(r"[1-9]"))
    at_page(page, "graph")
    click(canvas, "2")
    expect(page.locator(".node").first).to_contain_text("aten::addmm")
    expect(page.locator(".node").first).to_contain_text("collectors/workloads/mlp.py:")
    idle(page)
    page.get_by_role("link", name="Show in the timeline").click()

    stage = page.locator(".timeline canvas")
    expect(stage).to_have_attribute("data-painted", re.compile(r"[1-9]"))
    expect(page).to_have_url(re.compile(r"/timeline\?"))
    stage.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".timeline .panel")).to_contain_text("aten::addmm")

    idle(page)
    page.get_by_role("link", name="Export").first.click()
    download = page.get_by_role("link", name="Download .pftrace")
    expect(download).to_be_visible()
    at_page(page, "export")
    with page.expect_download() as caught:
        download.click()
    file = tmp_path / "trace.pftrace"
    caught.value.save_as(file)
    checked = check_trace(file)
    assert not checked.problems


def test_a_deep_link_restores_what_was_seen(page: Page, dashboard: str) -> None:
    page.goto(f"{dashboard}/graph?experiment=mlp-train&run=partial&graph=graph-3&colour=kind")
    canvas = page.locator(".dag canvas")
    expect(canvas).to_have_attribute("data-boxes", re.compile(r"[1-9]"))
    shown = canvas.evaluate("canvas => [canvas.__dag.state.query, canvas.__dag.state.colour]")
    assert shown[0]["run"] == "partial"
    assert shown[0]["graph"] == "graph-3"
    assert shown[1] == "kind"
    page.goto(f"{dashboard}/compare?experiment=fork-join")
    expect(page.locator(".answer")).to_contain_text("graph is")
    page.go_back()
    expect(page.locator(".dag canvas")).to_be_visible()
