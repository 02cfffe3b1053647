"""Bounds of several streams from an eager trace alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from graphviz_dash.analysis.parallel.eager_bounds import eager_bounds
from graphviz_dash.analysis.prediction.evaluation import predict_run
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.prediction.shipped_calibration import shipped_calibration
from graphviz_dash.ingest.load import load_run
from graphviz_dash.narrative.parallel import eager_row


@pytest.mark.parametrize(("sample", "measured_us"), [("transformer-train", 1418), ("decode", 570)])
def test_what_was_measured_lies_within(sample: str, measured_us: int) -> None:
    """The measured are of the same workloads, captured on two and on three streams."""
    prediction = predict_run(
        load_run(Path("sample_traces") / sample / "eager"), shipped_calibration()
    )
    assert isinstance(prediction, Prediction)
    bounds = eager_bounds(prediction)
    assert [each.streams for each in bounds] == [2, 4, 8]
    for each in bounds:
        assert each.low_ns < measured_us * 1000 < each.high_ns
        assert each.high_ns == prediction.step_ns.value
    assert all(more.low_ns <= fewer.low_ns for fewer, more in pairwise(bounds))
    assert eager_row(bounds[0])[0] == "2"
