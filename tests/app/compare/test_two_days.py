from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from graphviz_dash.ui.state.catalogue import format_pair_name
from tests.cli.fixtures import Invoke
from tests.samples import SAMPLES
from tests.ui.views.apptests import LookIn, markup, shown

SOURCES = {"monday": "wasteful", "tuesday": "frugal"}


@pytest.fixture
def record(tmp_path: Path) -> Callable[[str, str], None]:
    """Copies a recording of 2026-11-26 to a path of the folder, as one of another day."""

    def copy(day: str, target: str) -> None:
        shutil.copytree(SAMPLES / "recorded-decoder" / SOURCES[day], tmp_path / target)
        manifest = tmp_path / target / "manifest.json"
        number = 23 if day == "monday" else 24
        manifest.write_text(manifest.read_text().replace("2026-11-26T", f"2026-11-{number}T"))

    return copy


def test_the_page_names_an_improvement_and_both_days(
    record: Callable[[str, str], None], tmp_path: Path, look_in: LookIn
) -> None:
    for day in SOURCES:
        record(day, f"{day}/server")
    look_in(tmp_path)
    pair = format_pair_name("monday/server", "tuesday/server")
    text = re.sub(r"<[^>]+>", " ", markup(shown("compare", experiment=pair)))
    assert re.search(r"Improvement: server@tuesday is\s+1\.00x faster", text)
    assert "Recorded" in text
    assert "server@monday 2026-11-23, server@tuesday 2026-11-24" in text


def test_the_terminal_shows_both_days(
    record: Callable[[str, str], None], tmp_path: Path, invoke: Invoke
) -> None:
    for day in SOURCES:
        record(day, day)
    assert (
        "Recorded:  monday 2026-11-23, tuesday 2026-11-24\n" in invoke("compare", str(tmp_path)).out
    )
