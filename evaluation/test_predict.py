from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.predict.score import DATA, lines
from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration

PAGE = Path(__file__).parents[1] / "evaluation" / "reports" / "2026-11-24-predictions.md"


@pytest.mark.timeout(400)
def test_the_page_shows_what_the_data_gives() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    missing = [line for line in lines(load_shipped_calibration()) if line and line not in page]
    assert missing == [], "run: python -m evaluation.predict.score, and put it into the report"


def test_no_workload_is_calibrated_with_and_scored() -> None:
    calibration_names = {sample.name for sample in load_shipped_calibration().samples}
    assert calibration_names == {path.name for path in (DATA / "calibration").iterdir()}
    check_names = {check.name for check in load_shipped_calibration().holdout_samples}
    assert check_names >= {path.name for path in (DATA / "test").iterdir()}
    unseen = {path.name for path in (DATA / "unseen").iterdir()}
    assert not calibration_names & check_names
    assert not unseen & (calibration_names | check_names)
