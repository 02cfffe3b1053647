from __future__ import annotations

from evaluation.traces.bounds import try_traces


def test_damaged_traces_give_no_speedup_above_the_bound() -> None:
    result = try_traces(count=30, seed=2026)
    assert (result.traces, result.failures) == (30, 0)
    assert result.speedups_count >= 5
    assert 0.5 < result.highest <= 1
