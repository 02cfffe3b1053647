from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.language.check import (
    BASELINE,
    ROOT,
    Finding,
    compare_with_baseline,
    count_identifier_words,
    find_in_file,
    lower_baseline,
)
from scripts.language.rules import IDENTIFIER_WORDS, MAX_IDENTIFIER_RATE


def find(tmp_path: Path, name: str, text: str, folder: str = "graphviz_dash/") -> list[Finding]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return find_in_file(path, f"{folder}{name}")


@pytest.mark.parametrize(
    ("source", "rule", "words", "line"),
    [
        ('"""Mend the step."""\n', "phrase", "Mend", 1),
        ('"""Fix the step."""\n# It is run anew.\n', "phrase", "anew", 2),
        ('"""Fix."""\nLABEL = "What a graph takes"\n', "phrase", "What a", 2),
        ('"""Whether it is open."""\n', "opening", "Whether", 1),
        ('"""Fix."""\n\n\ndef figures() -> None:\n    """Draw."""\n', "verb", "figures", 4),
        ('"""Fix."""\n\n\nclass Told:\n    """A report."""\n', "name", "Told", 4),
        ('"""Fix."""\n\n\nclass A:\n    """B."""\n\n    kept: int\n', "name", "kept", 7),
    ],
)
def test_python(tmp_path: Path, source: str, rule: str, words: str, line: int) -> None:
    findings = find(tmp_path, "module.py", source)
    assert (rule, words, line) in {(each.rule, each.words, each.line) for each in findings}


def test_plain_english_has_no_findings(tmp_path: Path) -> None:
    source = '''"""Fold repeated parts of a graph."""


def fold_graph(nodes: list[int]) -> list[int]:
    """Fold the nodes that repeat.

    Returns positions in launch order, or an empty list if nothing repeats.
    """
    # Positions are unique, so sorting them is stable.
    return sorted(nodes)
'''
    assert find(tmp_path, "module.py", source) == []


def test_properties_are_nouns(tmp_path: Path) -> None:
    source = (
        '"""A."""\n\n\nclass A:\n    """B."""\n\n'
        '    @property\n    def width(self) -> int:\n        """C."""\n'
    )
    assert find(tmp_path, "module.py", source) == []


def test_names_count_only_in_the_packages(tmp_path: Path) -> None:
    source = '"""A."""\n\n\ndef found() -> None:\n    """B."""\n'
    assert find(tmp_path, "module.py", source, folder="tests/") == []


def test_javascript_and_markdown(tmp_path: Path) -> None:
    script = find(tmp_path, "a.js", "// Drawn anew.\nconst label = 'is told of it';\n")
    assert [(each.words, each.line) for each in script] == [("anew", 1), ("is told", 2)]
    page = find(
        tmp_path, "a.md", "# Costs\n\n```\nanew\n```\n\nThe step is\nmended.\n", folder="docs/"
    )
    assert [(each.words, each.line) for each in page] == [("mended", 8)]


def test_a_finding_beyond_the_baseline_is_printed_with_its_place_and_replacement() -> None:
    finding = Finding(7, "phrase", "anew", "again")
    assert compare_with_baseline({"a.py": [finding]}, {"a.py": {"phrase": 1}}) == []
    (line,) = compare_with_baseline({"a.py": [finding]}, {})
    assert line == "a.py:7: phrase: 'anew'; write: again"


def test_the_baseline_only_falls() -> None:
    finding = Finding(7, "phrase", "anew", "again")
    baseline = {"a.py": {"phrase": 1, "verb": 4}}
    assert lower_baseline({"a.py": [finding] * 3}, baseline) == {"a.py": {"phrase": 1}}
    assert lower_baseline({"a.py": []}, baseline) == {}


def test_files_of_the_baseline_exist() -> None:
    files = json.loads(BASELINE.read_text(encoding="utf-8"))
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_counts_every_bound_name(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "class WholeStep:\n"
        "    def __init__(self, wanted):\n"
        "        self.kept_rows = [each for each in wanted]\n"
        "        print(unknown, key=lambda one: one)\n",
        encoding="utf-8",
    )
    words = count_identifier_words([path])
    assert words == dict.fromkeys(["whole", "step", "wanted", "kept", "rows", "each", "one"], 1)


def test_few_names_of_the_product_have_words_of_the_dialect() -> None:
    paths = [
        path for part in ("graphviz_dash", "collectors") for path in (ROOT / part).rglob("*.py")
    ]
    words = count_identifier_words(paths)
    dialect = sum(count for word, count in words.items() if word in IDENTIFIER_WORDS)
    assert 1000 * dialect / words.total() <= MAX_IDENTIFIER_RATE
