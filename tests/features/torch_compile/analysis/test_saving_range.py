"""How sure a promised saving is."""

from __future__ import annotations

import pytest

from graphviz_dash.features.torch_compile.analysis.saving_range import (
    DIFFERS,
    LEAST,
    MOST,
    saving_range,
)


def test_a_large_saving_has_the_range_that_mends_had() -> None:
    own = saving_range(200.0, 1_000.0, 900.0)
    assert (own.low_ns, own.high_ns) == pytest.approx((200 * LEAST, 200 * MOST))
    assert own.is_clear


def test_no_saving_is_more_than_the_gpu_is_idle_for() -> None:
    assert saving_range(600.0, 1_000.0, 700.0).high_ns == 700
    assert saving_range(600.0, 1_000.0, 500.0).high_ns == 600


def test_what_is_smaller_than_processes_differ_by_is_too_small_to_tell() -> None:
    assert not saving_range(0.9 * DIFFERS * 1_000, 1_000.0, 900.0).is_clear
    alike = saving_range(20.0, 1_000.0, 900.0, (995.0, 1_000.0, 1_005.0))
    assert alike.is_clear
    assert alike.differs_ns == pytest.approx(5)
    other = saving_range(50.0, 1_000.0, 900.0, (900.0, 1_000.0, 1_300.0))
    assert not other.is_clear
    assert (other.low_ns, other.high_ns) == pytest.approx((0, 250))
