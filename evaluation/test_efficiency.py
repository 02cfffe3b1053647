from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.efficiency.score import (
    generate_counter_lines,
    generate_saving_lines,
    list_programs,
    measure_products,
)
from graphviz_dash.features.efficiency.analysis.rules.products import GOOD_SHARE

PAGE = Path(__file__).parents[1] / "evaluation" / "reports" / "2026-11-27-hardware-limits.md"


@pytest.fixture(name="lines", scope="module")
def generate_lines() -> list[str]:
    return [*generate_counter_lines(), *generate_saving_lines()]


def test_the_page_shows_the_recorded_data(lines: list[str]) -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    missing = [line for line in lines if line and line not in page]
    assert missing == [], "run: python -m evaluation.efficiency.score, and put it into the report"


def test_work_and_savings_agree_with_measurements(lines: list[str]) -> None:
    (total,) = [line for line in lines if line.startswith("| all ")]
    assert len(list_programs()) >= 10
    assert int(total.split(" | ")[-1].rstrip(" |")) >= 150
    hits, _, cases, *_ = lines[-1].split()
    assert int(cases) >= 10
    assert int(hits) >= 0.8 * int(cases)


def test_products_near_the_measured_rate_get_no_advice() -> None:
    report = measure_products()
    shares = [limit.share for limit in report.limits if limit.unit.work and limit.unit.work.flops]
    assert len(shares) == 6
    assert min(share or 0 for share in shares) > GOOD_SHARE
    assert report.advice == ()
