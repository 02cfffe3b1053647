"""Rules of the language check: phrases with replacements, verbs, and words that name nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

__all__ = [
    "ANY_PHRASE",
    "FUNCTION_WORDS",
    "IDENTIFIER_WORDS",
    "MAX_IDENTIFIER_RATE",
    "OPENINGS",
    "PARTICIPLES",
    "PHRASES",
    "VERBS",
    "Phrase",
]


class Phrase(NamedTuple):
    """A phrase that plain technical English does not need."""

    pattern: re.Pattern[str]
    """Matches the phrase in a sentence."""
    suggestion: str
    """Replacement, or what to do."""


def _phrase(pattern: str, suggestion: str) -> Phrase:
    return Phrase(re.compile(pattern, re.IGNORECASE), suggestion)


def _read_words(name: str) -> frozenset[str]:
    return frozenset(Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8").split())


_BE: Final = r"\b(?:is|are|was|were|be|been)"

PHRASES: Final = (
    _phrase(rf"{_BE} (?:told|said|noted|heard|taken down)\b", "is shown, is reported, is recorded"),
    _phrase(r"\bforetold?\b|\bforetells?\b", "predicted, predicts"),
    _phrase(r"\btells? (?:of|which|what|how|that|whether|apart|it)\b", "shows, reports, names"),
    _phrase(r"\bsays? (?:so|of|which|what|how much)\b", "shows, states"),
    _phrase(r"\banew\b|\bonce more\b", "again"),
    _phrase(r"\bmend(?:s|ed|ing)?\b", "fix, fixed"),
    _phrase(r"\bsurely\b|\bfor sure\b|\bhow sure\b|\bthe surer\b", "significantly; confidence"),
    _phrase(r"\bbeside\b", "next to, compared with, in addition to"),
    _phrase(r"\bhardly\b", "barely, marginal, rarely"),
    _phrase(r"\bpromis(?:e|es|ed)\b", "prediction, estimate"),
    _phrase(
        r"\bwhat (?:a|an|the|it|its|they|each|no|such|is|was|came|comes|follows|must|could|cannot"
        r"|can|has|have|takes?|costs?|graphs?|replays?|runs?)\b",
        "a noun: the cost of a graph, not what a graph takes",
    ),
    _phrase(r"\bwhoever\b|\bof (?:one|those|these|them) (?:whose|that|which)\b", "a plain subject"),
    _phrase(r"\b(?:of|by) so many\b", "this many"),
    _phrase(r"^(?:Of|Whose|What) [a-z]+", "start with the subject"),
    _phrase(r"\bis so\b|\bthe like\b", "name the fact; similar"),
    _phrase(r"\bof (?:its|their) own\b|\bfor itself\b|\bby itself\b", "separate, its own, alone"),
    _phrase(r"\btaken for\b|\bheld (?:against|beside|back)\b", "treated as; compared with"),
    _phrase(r"\bc(?:ome|omes|ame) (?:to|of)\b", "totals, is; results from"),
    _phrase(r"\bgiven back\b", "returned, freed"),
    _phrase(r"\bin turns\b", "interleaved"),
    _phrase(r"\bleft (?:out|alone|behind|over)\b", "omitted, excluded, unchanged"),
    _phrase(r"\bstands? (?:beside|above|below|behind|for|there|by)\b", "is above; represents"),
    _phrase(r"\blays?\b|\blies\b", "is, is at"),
    _phrase(r"\bat once\b", "immediately, at the same time"),
    _phrase(r"\bNone where\b|\bwhere none\b", "None if"),
    _phrase(r"\bfor (?:it|they|none|nothing) (?:is|are|was|were|has|had)\b", "because"),
    _phrase(r"\balike\b", "equal, similar"),
    _phrase(r"\bin the same breath\b|\bwithout a word\b", "at the same time; silently"),
)
"""Phrases that idiomatic technical English hardly uses, each with its replacement."""

ANY_PHRASE: Final = re.compile(
    "|".join(phrase.pattern.pattern for phrase in PHRASES), re.IGNORECASE
)
"""Matches if any phrase does, which most texts do not."""

OPENINGS: Final = frozenset({"What", "Whether", "How", "Where", "Which", "Whose"})
"""Words that no docstring starts with: an imperative verb or a noun phrase does."""

VERBS: Final = _read_words("verbs")
"""First words of function names."""

FUNCTION_WORDS: Final = _read_words("function_words")

PARTICIPLES: Final = _read_words("participles")
"""Irregular participles; regular ones end in -ed."""

IDENTIFIER_WORDS: Final = _read_words("identifier_words")
"""Words of the former dialect in identifiers, one word with its forms per line of the file."""

MAX_IDENTIFIER_RATE: Final = 14.0
"""Limit of such words per 1,000 words of bound names in the product and the collectors."""
