"""Check the language of the project against a baseline that may only fall.

``python -m scripts.language.check`` fails and prints the findings in files that have more of them
than the baseline allows. ``--lower`` writes the baseline again after an improvement; it raises no
count. ``--list PATH...`` prints all findings below the given paths. ``--identifiers`` prints the
rate of dialect words in bound names and fails above the limit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.language.rules import (
    ANY_PHRASE,
    FUNCTION_WORDS,
    IDENTIFIER_WORDS,
    MAX_IDENTIFIER_RATE,
    OPENINGS,
    PARTICIPLES,
    PHRASES,
    VERBS,
)
from scripts.language.texts import Name, Text, read_bindings, read_names, read_texts, split_name

__all__ = [
    "Finding",
    "compare_with_baseline",
    "count_identifier_words",
    "find_in_file",
    "find_in_name",
    "find_in_text",
]

ROOT: Final = Path(__file__).parents[2]
BASELINE: Final = Path(__file__).with_name("baseline.json")
_SUFFIXES: Final = (".py", ".js", ".md")
_EXCLUSIONS: Final = ("docs/schemas/", "sample_traces/", "scripts/language/rules.py", "LICENSE")
_NAME_FOLDERS: Final = ("graphviz_dash/", "collectors/", "scripts/", "benchmarks/", "evaluation/")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z\"])|\n\s*\n|\n\s*[-*] ")
_COMMON_NAMES: Final = frozenset(
    [
        "main",
        "by",
        "of",
        "to",
        "at",
        "on",
        "in",
        "no",
        "off",
        "first",
        "last",
        "before",
        "after",
        "other",
        "others",
        "left",
        "right",
        "now",
        "inside",
        "outside",
    ]
)
"""Idiomatic names of entry points, parameters and pairs."""
_NOUNS_IN_ED: Final = frozenset({"speed", "seed", "feed", "embed", "shared", "need"})
"""Words in -ed that are nouns or adjectives of the field."""


class Finding(NamedTuple):
    """A place that breaks a rule."""

    line: int
    """Line in the file, from 1."""
    rule: str
    """``phrase``, ``opening``, ``verb`` or ``name``."""
    words: str
    """The phrase or name."""
    suggestion: str
    """Replacement, or the kind of word to write."""


def find_in_text(text: Text) -> Iterator[Finding]:
    """Find dialect phrases and docstring openings in a text."""
    start = 0
    for sentence in _SENTENCE_END.split(text.text):
        start = text.text.find(sentence, start)
        for phrase in PHRASES if ANY_PHRASE.search(sentence) else ():
            for match in phrase.pattern.finditer(sentence):
                line = text.line + text.text.count("\n", 0, start + match.start())
                yield Finding(line, "phrase", match.group().strip(), phrase.suggestion)
        start += len(sentence)
    words = text.text.split(maxsplit=1)
    if text.kind == "docstring" and words and words[0].rstrip(",:") in OPENINGS:
        yield Finding(text.line, "opening", words[0], "an imperative verb or a noun phrase")


def find_in_name(name: Name) -> Iterator[Finding]:
    """Find functions without a verb and names of function words or participles."""
    words = split_name(name.name)
    if not words or name.name in _COMMON_NAMES or name.name.startswith("__"):
        return
    if name.kind == "function" and words[0] not in VERBS and not name.name.startswith("test_"):
        yield Finding(name.line, "verb", name.name, "a verb first")
    if all(_names_nothing(word) for word in words):
        yield Finding(name.line, "name", name.name, "a noun of the field, or a verb for a function")


def find_in_file(path: Path, relative: str) -> list[Finding]:
    """Find all violations in a file; names count only in the project's own packages.

    Raises:
        SyntaxError: a Python file does not parse.
    """
    findings = [finding for text in read_texts(path) for finding in find_in_text(text)]
    if path.suffix == ".py" and relative.startswith(_NAME_FOLDERS):
        findings += [finding for name in read_names(path) for finding in find_in_name(name)]
    return sorted(findings)


def compare_with_baseline(
    findings: Mapping[str, Sequence[Finding]], baseline: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Return a line for each finding of a rule that has more findings than its file may have."""
    lines = []
    for file, in_file in findings.items():
        counts = Counter(finding.rule for finding in in_file)
        limits = baseline.get(file, {})
        excess = {rule for rule, count in counts.items() if count > limits.get(rule, 0)}
        lines += [
            f"{file}:{finding.line}: {finding.rule}: {finding.words!r}; write: {finding.suggestion}"
            for finding in in_file
            if finding.rule in excess
        ]
    return lines


def lower_baseline(
    findings: Mapping[str, Sequence[Finding]], baseline: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Count findings by file and rule, never above the baseline; files without any are dropped."""
    lowered = {}
    for file, in_file in sorted(findings.items()):
        counts = Counter(finding.rule for finding in in_file)
        limits = baseline.get(file, {})
        rules = {rule: min(count, limits.get(rule, 0)) for rule, count in sorted(counts.items())}
        lowered[file] = {rule: count for rule, count in rules.items() if count}
    return {file: rules for file, rules in lowered.items() if rules}


def count_identifier_words(paths: Iterable[Path]) -> Counter[str]:
    """Count the words of all names that the Python files bind."""
    return Counter(
        word for path in paths for name in read_bindings(path) for word in split_name(name)
    )


def _print_identifier_rate() -> bool:
    """Print dialect words in names of the product; return True above the limit."""
    files = [file for file in _list_files(["graphviz_dash", "collectors"]) if file.endswith(".py")]
    words = count_identifier_words(ROOT / file for file in files)
    dialect = Counter({word: count for word, count in words.items() if word in IDENTIFIER_WORDS})
    rate = 1000 * dialect.total() / words.total()
    for word, count in dialect.most_common():
        print(f"{count:5,d}  {word}")
    print(
        f"{rate:.1f} of 1,000 identifier words ({words.total():,} in all); "
        f"at most {MAX_IDENTIFIER_RATE:g}"
    )
    return rate > MAX_IDENTIFIER_RATE


def _names_nothing(word: str) -> bool:
    is_participle = word in PARTICIPLES or (word.endswith("ed") and len(word) > len("need"))
    return word in FUNCTION_WORDS or (is_participle and word not in _NOUNS_IN_ED)


def _list_files(paths: Sequence[str]) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        file
        for file in output.splitlines()
        if file.endswith(_SUFFIXES) and not file.startswith(_EXCLUSIONS) and (ROOT / file).is_file()
    ]


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    if "--identifiers" in arguments:
        return int(_print_identifier_rate())
    paths = [argument for argument in arguments if not argument.startswith("--")]
    findings = {file: find_in_file(ROOT / file, file) for file in _list_files(paths)}
    if "--list" in arguments:
        print("\n".join(compare_with_baseline(findings, {})) or "No findings")
        return 0
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    if "--lower" in arguments:
        lowered = lower_baseline(findings, baseline)
        BASELINE.write_text(json.dumps(lowered, indent=1) + "\n", encoding="utf-8")
        total = sum(sum(rules.values()) for rules in lowered.values())
        print(f"The baseline allows {total} findings in {len(lowered)} files")
        return 0
    excess = compare_with_baseline(findings, baseline)
    print("\n".join(excess) or "No finding beyond the baseline")
    return bool(excess)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
