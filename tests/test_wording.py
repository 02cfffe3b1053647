from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ODD: Final = (ROOT / "tests/odd_phrases.txt").read_text(encoding="utf-8").splitlines()
"""Parts of the strings that the review of the pages lists with replacements."""


def test_no_odd_phrase_is_back() -> None:
    sources = [
        (path, path.read_text(encoding="utf-8"))
        for package in ("graphviz_dash", "collectors")
        for suffix in ("py", "js")
        for path in (ROOT / package).rglob(f"*.{suffix}")
    ]
    assert len(sources) > 300
    back = [
        (phrase, str(path.relative_to(ROOT)))
        for phrase in ODD
        for path, text in sources
        if phrase in text
    ]
    assert back == []
