"""Check the language of the project against a baseline that may only fall.

``python -m scripts.language.check`` fails and prints the findings in files that have more of them
than the baseline allows. ``--lower`` writes the baseline again after an improvement; it raises no
count. ``--list PATH...`` prints all findings below the given paths.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.language.rules import FUNCTION_WORDS, OPENINGS, PARTICIPLES, PHRASES, VERBS
from scripts.language.texts import Name, Text, read_names, read_texts, split_name

__all__ = ["Finding", "check", "find_in_file", "find_in_name", "find_in_text"]

ROOT: Final = Path(__file__).parents[2]
BASELINE: Final = Path(__file__).with_name("baseline.json")
_SKIPPED: Final = ("docs/schemas/", "sample_traces/", "scripts/language/rules.py", "LICENSE")
_NAME_FOLDERS: Final = (
    "graphviz_dash/",
    "collectors/",
    "scripts/",
    "benchmarks/",
    "evaluation/",
    "app.py",
)
_SENTENCE: Final = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z\"])|\n\s*\n|\n\s*[-*] ")


class Finding(NamedTuple):
    """A place that breaks a rule."""

    line: int
    """Line in the file, from 1."""
    rule: str
    """``phrase``, ``opening``, ``verb`` or ``name``."""
    found: str
    """The phrase or name."""
    suggestion: str
    """What to write instead."""


def find_in_text(text: Text) -> Iterator[Finding]:
    """Find dialect phrases and docstring openings in a text."""
    offset = 0
    for sentence in _SENTENCE.split(text.text):
        at = text.text.find(sentence, offset)
        offset = at + len(sentence)
        for phrase in PHRASES:
            for match in phrase.pattern.finditer(sentence):
                line = text.line + text.text.count("\n", 0, at + match.start())
                yield Finding(line, "phrase", match.group().strip(), phrase.suggestion)
    words = text.text.split(maxsplit=1)
    if text.kind == "docstring" and words and words[0].rstrip(",:") in OPENINGS:
        yield Finding(text.line, "opening", words[0], "an imperative verb or a noun phrase")


def find_in_name(name: Name) -> Iterator[Finding]:
    """Find functions without a verb, and names that name nothing."""
    words = split_name(name.name)
    if not words:
        return
    if name.kind == "function" and words[0] not in VERBS and not name.name.startswith("test_"):
        yield Finding(name.line, "verb", name.name, "a verb first")
    if all(_is_empty(word) for word in words) and len(name.name.strip("_")) > 2:
        yield Finding(name.line, "name", name.name, "a noun of the field, or a verb for a function")


def find_in_file(path: Path, relative: str) -> list[Finding]:
    """Find everything in a file; names count in the project's own packages."""
    findings = [finding for text in read_texts(path) for finding in find_in_text(text)]
    if path.suffix == ".py" and relative.startswith(_NAME_FOLDERS):
        findings += [finding for name in read_names(path) for finding in find_in_name(name)]
    return sorted(findings)


def check(
    findings: Mapping[str, Sequence[Finding]], baseline: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Compare findings with the baseline: a line for each finding of a rule that has too many."""
    lines = []
    for file, found in findings.items():
        counts = Counter(finding.rule for finding in found)
        allowed = baseline.get(file, {})
        over = {rule for rule, count in counts.items() if count > allowed.get(rule, 0)}
        lines += [
            f"{file}:{each.line}: {each.rule}: {each.found!r}; write: {each.suggestion}"
            for each in found
            if each.rule in over
        ]
    return lines


def _is_empty(word: str) -> bool:
    is_participle = word in PARTICIPLES or (word.endswith("ed") and len(word) > len("need"))
    return word in FUNCTION_WORDS or is_participle


def _lower(found: Sequence[Finding], allowed: Mapping[str, int]) -> dict[str, int]:
    """Count the findings by rule, never above what was allowed."""
    counts = Counter(finding.rule for finding in found)
    lowered = {rule: min(count, allowed.get(rule, 0)) for rule, count in sorted(counts.items())}
    return {rule: count for rule, count in lowered.items() if count}


def _list_files(paths: Sequence[str]) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        file
        for file in listed.stdout.splitlines()
        if file.endswith((".py", ".js", ".md"))
        and not file.startswith(_SKIPPED)
        and (ROOT / file).is_file()
    ]


def main(arguments: Sequence[str]) -> int:
    """Run the check, or list or lower as the arguments ask."""
    paths = [argument for argument in arguments if not argument.startswith("--")]
    findings = {file: find_in_file(ROOT / file, file) for file in _list_files(paths)}
    if "--list" in arguments:
        everything = check(findings, {})
        print("\n".join(everything) or "nothing found")
        return 0
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    if "--lower" in arguments:
        kept = {file: _lower(found, baseline.get(file, {})) for file, found in findings.items()}
        kept = {file: rules for file, rules in sorted(kept.items()) if rules}
        BASELINE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        total = sum(sum(rules.values()) for rules in kept.values())
        print(f"{total} findings in {len(kept)} files remain")
        return 0
    too_many = check(findings, baseline)
    print("\n".join(too_many) or "The language has no finding beyond the baseline")
    return bool(too_many)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
