"""The documentation answers questions in two clicks and 400 words."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.test_docs import anchors

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MOST_WORDS = 400
QUESTIONS = tomllib.loads((ROOT / "tests/cases/questions.toml").read_text())["questions"]


def read_section(link: str) -> str:
    """Return the text behind a link: one section, or a whole page without an anchor."""
    name, _, anchor = link.partition("#")
    text = (DOCS / name).read_text()
    if not anchor:
        return text
    assert anchor in anchors(DOCS / name)
    parts = re.split(r"(?m)^(#{1,6} .*)$", text)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        slug = re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")
        if slug == anchor:
            return body
    raise AssertionError(link)


def count_words(text: str) -> int:
    """Count words, without the bars and rules of tables."""
    return sum(1 for word in text.split() if re.search(r"\w", word))


def test_readme_links_the_task_index() -> None:
    assert "(docs/index.md)" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("case", QUESTIONS, ids=lambda case: case["link"])
def test_question_is_answered_in_two_clicks(case: dict) -> None:
    assert f"({case['link']})" in (DOCS / "index.md").read_text(), "not in the task index"
    section = read_section(case["link"])
    flat = " ".join(section.split())
    for phrase in case["answer"]:
        assert phrase in flat
    # A reader stops at the last phrase of the answer.
    end = max(flat.index(phrase) + len(phrase) for phrase in case["answer"])
    read = flat[:end] if "#" not in case["link"] else flat
    assert count_words(read) <= MOST_WORDS, count_words(read)
