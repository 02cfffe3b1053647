from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.evaluation import predict_run
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.features.prediction.analysis.eager_bounds import compute_eager_bounds
from graphviz_dash.features.prediction.stream_narrative import (
    build_eager_row,
    describe_eager_bounds,
)
from graphviz_dash.ingest.load import load_run


def predicted(sample: str) -> Prediction:
    run = load_run(Path("sample_traces") / sample / "eager")
    prediction = predict_run(run, load_shipped_calibration())
    assert isinstance(prediction, Prediction)
    return prediction


@pytest.mark.parametrize(
    ("sample", "streams", "measured_us"),
    [("transformer-train", 2, 1403), ("transformer-train", 4, 1331), ("mlp-train", 2, 136)],
)
def test_the_backward_of_products_tells_of_training(
    sample: str, streams: int, measured_us: int
) -> None:
    """The measured are of the same workloads, captured on as many streams."""
    prediction = predicted(sample)
    bounds = {each.streams: each for each in compute_eager_bounds(prediction)}
    own, line = bounds[streams], prediction.step_ns.value
    assert own.value_ns is not None
    assert own.low_ns < measured_us * 1000 < own.high_ns
    assert own.low_ns <= own.value_ns < line
    assert all(
        more.value_ns <= fewer.value_ns and more.low_ns <= fewer.low_ns
        for fewer, more in pairwise(bounds.values())
        if more.value_ns is not None and fewer.value_ns is not None
    )
    assert "The estimate" in describe_eager_bounds(tuple(bounds.values()))


def test_without_a_backward_there_are_bounds_and_the_reason() -> None:
    prediction = predicted("decode")
    bounds = compute_eager_bounds(prediction)
    assert [each.streams for each in bounds] == [2, 4, 8]
    for each in bounds:
        assert each.low_ns < 570_000 < each.high_ns == prediction.step_ns.value
        assert build_eager_row(each)[2] == "–"
    assert "Nothing is estimated" in describe_eager_bounds(bounds)
