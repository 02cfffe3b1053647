"""The main path in a real browser: open, choose, read the speedup, click a node, zoom, export."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import BrowserContext, Page, expect

from benchmarks.attack.visitor import Visitor
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.cli.main import cli
from graphviz_dash.exports.trace.perfetto_check import check_trace
from tests.importers.test_bundles import capture, replay
from tests.ui.tabs import Overheard, tab
from tests.ui.waits import idle

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
        run["name"]: run["figures"]["speedup"]["value"]
        for run in document["runs"]
        if run["figures"]["speedup"]["value"] is not None
    }


def test_from_the_overview_to_a_node_a_kernel_and_a_trace(
    page: Page, dashboard: str, tmp_path: Path
) -> None:
    page.goto(dashboard)
    for name in ("decode", "fork-join", "mlp-train", "sync-in-step", "transformer-train"):
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(page.get_by_text("sync_in_step.py:15").first).to_be_visible()

    card = page.locator(".card").filter(has=page.get_by_role("link", name="mlp-train", exact=True))
    card.get_by_role("link", name="Compare").click()
    expect(page).to_have_url(re.compile(r"/compare\?.*experiment=mlp-train"))
    speedup = METRICS["speedup"].format(compared("mlp-train")["graph"])
    tile = page.locator(".tile").filter(has_text="Speedup")
    expect(tile.locator(".value")).to_have_text(speedup)
    expect(page.locator(".answer")).to_contain_text(
        f"graph makes a step {speedup} faster than eager"
    )

    page.get_by_role("link", name="Graph", exact=True).first.click()
    canvas = page.locator(".dag canvas")
    expect(canvas).to_have_attribute("data-boxes", re.compile(r"[1-9]"))
    place = canvas.evaluate("canvas => canvas.__dag.positionOf(2)")
    page.mouse.click(place["x"], place["y"])
    expect(page.locator(".node")).to_contain_text("aten::addmm")
    expect(page.locator(".node")).to_contain_text("collectors/workloads/mlp.py:")
    page.get_by_role("link", name="Show in the timeline").click()

    stage = page.locator(".timeline canvas")
    expect(stage).to_have_attribute("data-painted", re.compile(r"[1-9]"))
    expect(page).to_have_url(re.compile(r"/timeline\?"))
    stage.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".timeline .panel")).to_contain_text("aten::addmm")

    page.get_by_role("link", name="Export").first.click()
    download = page.get_by_role("link", name="Download .pftrace")
    expect(download).to_be_visible()
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
    shown = canvas.evaluate("canvas => [canvas.__dag.query, canvas.__dag.colour]")
    assert shown[0]["run"] == "partial"
    assert shown[0]["graph"] == "graph-3"
    assert shown[1] == "kind"
    page.goto(f"{dashboard}/compare?experiment=fork-join")
    expect(page.locator(".answer")).to_contain_text("graph makes a step")
    page.go_back()
    expect(page.locator(".dag canvas")).to_be_visible()


def test_a_damaged_upload_is_one_line_and_a_good_one_opens_until_it_is_removed(
    page: Page, dashboard: str
) -> None:
    page.goto(dashboard)
    page.get_by_text("Open files from this computer").click()
    chooser = page.locator('input[type="file"]')
    chooser.set_input_files(
        files=[{"name": "bad.zip", "mimeType": "application/zip", "buffer": b"PK not a zip"}]
    )
    expect(page.get_by_text("not a readable zip file")).to_be_visible()
    # What was chosen stands below the words above it, and the error below that.
    places = [
        page.locator(f'[data-testid="{part}"] >> visible=true').last.bounding_box()
        for part in ("stCaptionContainer", "stFileUploader")
    ]
    words, files = places
    assert words is not None
    assert files is not None
    assert files["y"] >= words["y"] + words["height"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in Path("sample_traces/sync-in-step").rglob("*"):
            archive.write(
                file, Path("from-elsewhere") / file.relative_to("sample_traces/sync-in-step")
            )
    chooser.set_input_files(
        files=[{"name": "x.zip", "mimeType": "application/zip", "buffer": packed.getvalue()}]
    )
    expect(page.get_by_role("link", name="from-elsewhere", exact=True)).to_be_visible(
        timeout=60_000
    )
    expect(page.get_by_text(re.compile(r"\d opened here"))).to_be_visible()
    idle(page)
    page.get_by_role("link", name="Look at it").click()
    expect(page).to_have_url(re.compile(r"/compare\?experiment=from-elsewhere$"))
    with Visitor(dashboard) as other:
        other.open("compare", "experiment=from-elsewhere")
        assert "This experiment is not here" in other.text
    page.goto(dashboard)
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("link", name="from-elsewhere", exact=True)).to_have_count(0)
    expect(page.get_by_text("opened here")).to_have_count(0)


def test_traces_of_other_programs_open_by_upload(
    page: Page, dashboard: str, tmp_path: Path
) -> None:
    page.goto(dashboard)
    page.get_by_text("Open files from this computer").click()
    files = [
        capture(tmp_path / "dropped-capture.json.gz"),
        replay(tmp_path / "dropped-replay.json.gz"),
    ]
    page.locator('input[type="file"]').set_input_files([str(file) for file in files])
    expect(page.get_by_role("link", name="dropped", exact=True)).to_be_visible()
    note = "Imported from 2 × Kineto trace; 1 graph of 2 nodes; 6 kernels"
    expect(page.get_by_text(note)).to_be_visible()
    page.goto(f"{dashboard}/graph?experiment=dropped")
    said = "dependencies between nodes are not known"
    expect(page.get_by_text(said)).to_be_visible()
