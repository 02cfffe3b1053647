"""Collect the fragments in changes/ into CHANGELOG.md: ``make changelog VERSION=0.3.0``.

towncrier reads the fragments. A section of the version that is marked as unreleased takes the new
entries at the top of its lists; otherwise a new section begins. Either gets today's date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FRAGMENTS: Final = ROOT / "changes"
CHANGELOG: Final = ROOT / "CHANGELOG.md"
KINDS: Final = ("Added", "Changed", "Fixed")

Entries = dict[str, list[str]]


def main() -> None:
    """Write CHANGELOG.md and remove the fragments."""
    version = sys.argv[1] if len(sys.argv) > 1 else ""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit("Give the version of the release: make changelog VERSION=0.3.0")
    fragments = [path for path in FRAGMENTS.glob("*.md") if path.name != "README.md"]
    new = parse_entries(render_fragments(version)) if fragments else {}
    text = CHANGELOG.read_text(encoding="utf-8")
    CHANGELOG.write_text(format_changelog(text, version, date.today(), new), encoding="utf-8")
    for path in fragments:
        path.unlink()


def render_fragments(version: str) -> str:
    """The fragments as towncrier renders them."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", version]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return process.stdout


def parse_entries(section: str) -> Entries:
    """The entries of a section by kind; an entry may have several lines."""
    entries: Entries = {}
    kind = ""
    for line in section.splitlines():
        heading = re.fullmatch(r"#* *(Added|Changed|Fixed)", line)
        if heading is not None:
            kind = heading[1]
        elif line.startswith("- ") and kind:
            entries.setdefault(kind, []).append(line)
        elif line.startswith("  ") and kind and entries.get(kind):
            entries[kind][-1] += f"\n{line}"
    return entries


def format_changelog(text: str, version: str, day: date, new: Entries) -> str:
    """The changelog with the section of ``version``, dated ``day``."""
    sections = re.split(r"^(?=## )", text, flags=re.M)
    at = next((i for i, part in enumerate(sections) if part.startswith(f"## [{version}]")), None)
    old = parse_entries(sections[at]) if at is not None else {}
    lines = [f"## [{version}] - {day.isoformat()}", ""]
    for kind in KINDS:
        kind_entries = [*new.get(kind, ()), *old.get(kind, ())]
        if kind_entries:
            lines += [f"### {kind}", "", *kind_entries, ""]
    section = "\n".join(lines) + "\n"
    if at is None:
        sections.insert(1, section)
    else:
        sections[at] = section
    return "".join(sections).rstrip("\n") + "\n"


if __name__ == "__main__":
    main()
