from __future__ import annotations

import pytest

from graphviz_dash.features.torch_compile.analysis.saving_range import (
    DEFAULT_PROCESS_VARIANCE,
    MAX_GAIN_RATIO,
    MIN_GAIN_RATIO,
    compute_gain_range,
)


def test_a_large_saving_has_the_range_that_mends_had() -> None:
    own = compute_gain_range(200.0, 1_000.0, 900.0)
    assert (own.low_ns, own.high_ns) == pytest.approx((200 * MIN_GAIN_RATIO, 200 * MAX_GAIN_RATIO))
    assert own.is_significant


def test_no_saving_is_more_than_the_gpu_is_idle_for() -> None:
    assert compute_gain_range(600.0, 1_000.0, 700.0).high_ns == 700
    assert compute_gain_range(600.0, 1_000.0, 500.0).high_ns == 600


def test_a_gain_below_the_process_variance_is_not_significant() -> None:
    assert not compute_gain_range(
        0.9 * DEFAULT_PROCESS_VARIANCE * 1_000, 1_000.0, 900.0
    ).is_significant
    alike = compute_gain_range(20.0, 1_000.0, 900.0, (995.0, 1_000.0, 1_005.0))
    assert alike.is_significant
    assert alike.process_variance_ns == pytest.approx(5)
    other = compute_gain_range(50.0, 1_000.0, 900.0, (900.0, 1_000.0, 1_300.0))
    assert not other.is_significant
    assert (other.low_ns, other.high_ns) == pytest.approx((0, 250))
