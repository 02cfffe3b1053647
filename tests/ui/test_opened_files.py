from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.attack.visitor import Visitor
from tests.importers.test_bundles import capture, replay
from tests.ui.tabs import Overheard, tab
from tests.ui.waits import idle

pytestmark = pytest.mark.ui


@pytest.fixture
def page(visitor: BrowserContext, made: str) -> Iterator[Page]:
    with tab(visitor) as opened:
        overheard = Overheard(opened, made)
        yield opened
    assert overheard.foreign == []
    assert overheard.errors == []


def open_upload(page: Page, address: str) -> None:
    page.goto(address)
    button = page.get_by_test_id("stPopoverButton").filter(has_text="Upload")
    expect(button).to_be_visible()
    # A page that still runs may draw the button again.
    idle(page)
    button.click()


def test_a_damaged_upload_is_one_line_and_a_good_one_opens_until_it_is_removed(
    page: Page, made: str
) -> None:
    open_upload(page, made)
    chooser = page.locator('input[type="file"]')
    chooser.set_input_files(
        files=[{"name": "bad.zip", "mimeType": "application/zip", "buffer": b"PK not a zip"}]
    )
    expect(page.get_by_text("not a readable zip file")).to_be_visible()
    idle(page)
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
    expect(page.get_by_role("link", name="from-elsewhere", exact=True)).to_be_visible()
    expect(page.get_by_text(re.compile(r"\d uploaded by you"))).to_be_visible()
    idle(page)
    page.get_by_role("link", name="Open", exact=True).click()
    expect(page).to_have_url(re.compile(r"/compare\?experiment=from-elsewhere$"))
    with Visitor(made) as other:
        other.open("compare", "experiment=from-elsewhere")
        assert "Experiment not found" in other.text
    page.goto(made)
    remove = page.get_by_role("button", name="Remove")
    expect(remove).to_be_visible()
    idle(page)
    remove.click()
    expect(page.get_by_role("link", name="from-elsewhere", exact=True)).to_have_count(0)
    expect(page.get_by_text("uploaded by you")).to_have_count(0)


def test_traces_of_other_programs_open_by_upload(page: Page, made: str, tmp_path: Path) -> None:
    open_upload(page, made)
    files = [
        capture(tmp_path / "dropped-capture.json.gz"),
        replay(tmp_path / "dropped-replay.json.gz"),
    ]
    page.locator('input[type="file"]').set_input_files([str(file) for file in files])
    expect(page.get_by_role("link", name="dropped", exact=True)).to_be_visible()
    note = "Imported from 2 × Kineto trace; 1 graph with 2 nodes; 6 kernels"
    expect(page.get_by_text(note)).to_be_visible()
    page.goto(f"{made}/graph?experiment=dropped")
    said = "node dependencies are unknown"
    expect(page.get_by_text(said)).to_be_visible()
