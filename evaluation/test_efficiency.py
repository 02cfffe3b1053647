"""The report on hardware limits shows the result of the recorded data."""

from __future__ import annotations

from pathlib import Path

from evaluation.efficiency.score import generate_counter_lines, generate_saving_lines

PAGE = Path(__file__).parents[1] / "evaluation" / "reports" / "2026-11-26-hardware-limits.md"


def test_the_page_shows_the_recorded_data() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    lines = [*generate_counter_lines(), *generate_saving_lines()]
    missing = [line for line in lines if line and line not in page]
    assert missing == [], "run: python -m evaluation.efficiency.score, and put it into the report"
