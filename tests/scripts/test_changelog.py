from __future__ import annotations

import importlib.util
import re
from datetime import date
from pathlib import Path

import pytest

from graphviz_dash import __version__
from scripts.changelog import (
    CHANGELOG,
    FRAGMENTS,
    KINDS,
    format_changelog,
    parse_entries,
    render_fragments,
)

TEXT = CHANGELOG.read_text(encoding="utf-8")
SECTIONS = re.split(r"^(?=## )", TEXT, flags=re.M)[1:]
FILES = sorted(path for path in FRAGMENTS.glob("*.md") if path.name != "README.md")
MOST_WORDS = 25
UNRELEASED = """\
# Changelog

## [0.3.0] - unreleased

### Added

- Old.

## [0.2.0] - 2026-11-22

### Fixed

- Older.
"""


def test_every_release_has_a_date() -> None:
    headings = [section.splitlines()[0] for section in SECTIONS]
    assert all(
        re.fullmatch(r"## \[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d|unreleased)", heading)
        for heading in headings
    )
    assert any(heading.startswith(f"## [{__version__}]") for heading in headings)
    dates = [heading.rpartition(" ")[2] for heading in headings]
    assert dates == sorted(dates, reverse=True)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda text: text.split("]")[0][4:])
def test_entries_are_short_and_of_three_kinds(section: str) -> None:
    assert set(re.findall(r"^### (.+)$", section, re.M)) <= set(KINDS)
    for listed in parse_entries(section).values():
        assert [entry for entry in listed if len(entry.split()) - 1 > MOST_WORDS] == []


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_a_fragment_is_short_and_of_a_kind(file: Path) -> None:
    assert re.fullmatch(r"\+[\w-]+\.(added|changed|fixed)\.md", file.name)
    assert 0 < len(file.read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_an_unreleased_section_takes_new_entries_and_the_date() -> None:
    text = format_changelog(UNRELEASED, "0.3.0", date(2026, 12, 1), {"Added": ["- New."]})
    assert "## [0.3.0] - 2026-12-01\n\n### Added\n\n- New.\n- Old.\n\n## [0.2.0]" in text


def test_a_new_version_comes_first() -> None:
    text = format_changelog(UNRELEASED, "0.4.0", date(2027, 1, 1), {"Fixed": ["- New."]})
    assert text.index("## [0.4.0] - 2027-01-01") < text.index("## [0.3.0] - unreleased")


@pytest.mark.skipif(importlib.util.find_spec("towncrier") is None, reason="towncrier is missing")
@pytest.mark.skipif(not FILES, reason="there is no fragment")
def test_towncrier_reads_every_fragment() -> None:
    assert sum(len(listed) for listed in parse_entries(render_fragments("9.9.9")).values()) == len(
        FILES
    )
