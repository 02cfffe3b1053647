from __future__ import annotations

from pathlib import Path

from evaluation.parallel.score import lines, recorded_plans, score
from tests.recorded_plans import Split

PAGE = Path(__file__).parents[1] / "evaluation" / "reports" / "2026-11-24-parallel.md"


def test_the_page_shows_what_the_recorded_plans_give() -> None:
    scores = [score(plan) for plan in recorded_plans()]
    page = PAGE.read_text(encoding="utf-8").splitlines()
    missing = [line for line in lines(scores) if line and line not in page]
    assert missing == [], "run: python -m evaluation.parallel.score, and put it into the page"
    for result in scores:
        assert 0 < result.now_ns <= result.recorded.line_ns
    assert {result.recorded.split for result in scores} == set(Split)
