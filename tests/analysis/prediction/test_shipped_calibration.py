from __future__ import annotations

from graphviz_dash.analysis.prediction.calibration import (
    compute_sample_errors,
    load_shipped_calibration,
)
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.prediction.uncertainty import compute_error_scale
from graphviz_dash.model.calibration import CALIBRATION_VERSION


def test_it_is_of_the_version_that_is_read_and_names_every_term() -> None:
    calibration = load_shipped_calibration()
    assert calibration.version == CALIBRATION_VERSION
    assert "H200" in calibration.gpu.name
    assert set(calibration.terms) == set(ReplayTerm)


def test_intervals_hold_nine_of_ten_of_its_checks() -> None:
    calibration = load_shipped_calibration()
    weights = calibration.errors.weights
    inside = [
        compute_sample_errors(check)[0]
        <= compute_error_scale(check.sources, weights) * calibration.errors.step
        for check in calibration.holdout_samples
    ]
    assert len(inside) > 30
    assert 0.9 <= sum(inside) / len(inside) <= 0.97


def test_no_holdout_sample_is_used_for_fitting() -> None:
    calibration = load_shipped_calibration()
    names = {sample.name for sample in calibration.samples}
    assert not names.intersection(check.name for check in calibration.holdout_samples)
