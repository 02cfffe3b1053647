from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphviz_dash.analysis.prediction.uncertainty import (
    CONFIDENCE,
    MIN_SCALE,
    OTHER_GPU_FACTOR,
    ErrorSource,
    compute_conformal_quantile,
    compute_error_scale,
    compute_error_sources,
)
from tests.analysis.predictions import line_trace, predicted


def width(low: float | None, value: float, high: float | None) -> float:
    assert low is not None
    assert high is not None
    return (high - low) / 2 / value


@pytest.mark.parametrize("count", [20, 36, 71])
def test_a_further_score_lies_below_the_quantile_nine_times_of_ten(count: int) -> None:
    generator = np.random.default_rng(7)
    scores = np.abs(generator.standard_normal((2_000, count + 1)))
    inside = [score[-1] <= compute_conformal_quantile(score[:-1].tolist()) for score in scores]
    assert np.mean(inside) == pytest.approx(CONFIDENCE, abs=0.05)
    assert np.mean(inside) >= CONFIDENCE - 0.01


def test_few_scores_give_the_largest() -> None:
    assert compute_conformal_quantile([0.3, 0.1]) == 0.3


def test_error_sources_determine_the_scale() -> None:
    weights = {ErrorSource.STREAMS: 0.07, ErrorSource.COPIES: 0.1}
    assert compute_error_scale(
        {ErrorSource.STREAMS: 1.0, ErrorSource.COPIES: 0.5}, weights
    ) == pytest.approx(0.12)
    assert compute_error_scale({ErrorSource.KERNELS: 0.3}, weights) == MIN_SCALE


def test_the_sources_of_a_line_of_kernels(tmp_path: Path) -> None:
    step = predicted(line_trace(tmp_path, kernels=10)).step
    sources = compute_error_sources(step, 100_000)
    assert sources[ErrorSource.KERNELS] == 0.1
    assert {sources[ErrorSource.HEAT], sources[ErrorSource.COPIES]} == {0}
    assert sources[ErrorSource.STREAMS] == 0


def test_on_another_gpu_intervals_are_wider(tmp_path: Path) -> None:
    own = predicted(line_trace(tmp_path / "own")).step_ns
    other = predicted(line_trace(tmp_path / "other", device="NVIDIA L4")).step_ns
    assert own.value == other.value
    wider = width(other.low, other.value, other.high) / width(own.low, own.value, own.high)
    assert wider == pytest.approx(OTHER_GPU_FACTOR)
