from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ODD: Final = (ROOT / "tests/odd_phrases.txt").read_text(encoding="utf-8").splitlines()
"""Parts of the strings that reviews list with replacements. Those in quotes are complete labels."""
TEXTS: Final = ("graphviz_dash/*.py", "graphviz_dash/*.js", "collectors/*.py", "docs/*.md")
RENAMES: Final = "json-version-2.md"
"""Page that lists earlier names."""
_JOINT: Final = re.compile(r'"\s+f?"')
"""Between literals that Python joins."""


def read_text(path: Path) -> str:
    """Read a file as one line, with joined literals."""
    joined = _JOINT.sub("", path.read_text(encoding="utf-8"))
    return " ".join(joined.split())


def test_no_odd_phrase_is_back() -> None:
    paths = [ROOT / "README.md"]
    for pattern in TEXTS:
        folder, name = pattern.split("/")
        paths += (ROOT / folder).rglob(name)
    sources = [(path, read_text(path)) for path in paths if path.name != RENAMES]
    assert len(sources) > 300
    back = [
        (phrase, str(path.relative_to(ROOT)))
        for phrase in ODD
        for path, text in sources
        if phrase in text
    ]
    assert back == []
