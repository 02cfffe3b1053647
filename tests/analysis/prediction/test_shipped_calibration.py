"""The calibration that comes with the tool."""

from __future__ import annotations

from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.prediction.shipped_calibration import shipped_calibration
from graphviz_dash.model.calibration import CALIBRATION_VERSION


def test_it_is_of_the_version_that_is_read_and_names_every_term() -> None:
    calibration = shipped_calibration()
    assert calibration.version == CALIBRATION_VERSION
    assert "H200" in calibration.gpu.name
    assert set(calibration.terms) == set(ReplayTerm)


def test_its_error_holds_nine_of_ten_of_its_samples() -> None:
    calibration = shipped_calibration()
    errors = [abs(one.predicted_ns / one.step_ns - 1) for one in calibration.samples]
    inside = sum(error <= calibration.error * (1 + 1e-9) for error in errors)
    assert inside >= 0.9 * len(errors) - 1
