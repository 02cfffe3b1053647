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

SOURCES = {"monday": "fixed-0", "tuesday": "fixed-3"}


@pytest.fixture
def record(tmp_path: Path) -> Callable[[str, str], None]:
    """Copies a recording to a path of the folder, as one of another day."""

    def copy(day: str, target: str) -> None:
        shutil.copytree(SAMPLES / "compile-fixes" / SOURCES[day], tmp_path / target)
        manifest = tmp_path / target / "manifest.json"
        number = 23 if day == "monday" else 24
        text = re.sub(r"2026-11-\d\dT", f"2026-11-{number}T", manifest.read_text())
        manifest.write_text(text)

    return copy


def test_the_page_names_an_improvement_and_both_days(
    record: Callable[[str, str], None], tmp_path: Path, look_in: LookIn
) -> None:
    for day in SOURCES:
        record(day, f"{day}/server")
    look_in(tmp_path)
    pair = format_pair_name("monday/server", "tuesday/server")
    text = re.sub(r"<[^>]+>", " ", markup(shown("compare", experiment=pair)))
    assert re.search(r"Improvement: server@tuesday is\s+3\.34x faster", text)
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
