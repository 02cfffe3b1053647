from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.sample_statistics import (
    compute_interval,
    compute_percentiles,
    compute_resampled_medians,
    compute_resampled_process_medians,
    summarise,
)


class TestSummary:
    def test_median_and_quartiles(self) -> None:
        found = summarise([4, 1, 3, 2, 10])
        assert found is not None
        assert (found.median, found.spread.low, found.spread.high) == (3, 2, 4)
        assert found.spread.samples == 5
        assert found.relative_spread == pytest.approx(2 / 3)

    def test_an_even_count_takes_the_mean_of_the_middle_two(self) -> None:
        found = summarise([1, 2, 4, 10])
        assert found is not None
        assert found.median == 3

    def test_nothing(self) -> None:
        assert summarise([]) is None


class TestPercentiles:
    @given(
        st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=60),
        st.lists(st.floats(0, 100), min_size=1, max_size=4),
    )
    def test_they_are_those_of_numpy(self, values: list[float], of: list[float]) -> None:
        series = np.asarray(values)
        assert compute_percentiles(series, of) == np.percentile(series, of).tolist()

    @given(st.lists(st.integers(0, 10**13), min_size=1, max_size=60))
    def test_the_middle_is_the_median(self, values: list[int]) -> None:
        series = np.asarray(values, dtype=np.float64)
        assert compute_percentiles(series, (50,)) == [np.median(series)]


class TestResampling:
    def test_the_same_series_gives_the_same_medians(self) -> None:
        series = np.arange(50)
        assert (compute_resampled_medians(series, 0) == compute_resampled_medians(series, 0)).all()
        assert (compute_resampled_medians(series, 0) != compute_resampled_medians(series, 1)).any()

    def test_the_interval_holds_the_median(self) -> None:
        series = np.random.default_rng(1).normal(1000, 50, 200)
        found = compute_interval(compute_resampled_medians(series, 0), 200)
        assert found.low <= np.median(series) <= (found.high or 0)
        # A median of 200 normal values has a standard error of 1.25 * 50 / sqrt(200) = 4.4.
        assert 8 < (found.high or 0) - found.low < 35

    def test_neighbours_that_are_alike_widen_it(self) -> None:
        # A series that wanders says less than one of the same values in any order.
        generator = np.random.default_rng(2)
        wandering = np.zeros(400)
        for place, noise in enumerate(generator.normal(0, 1, 400)):
            wandering[place] = 0.9 * wandering[place - 1] + noise
        mixed = generator.permutation(wandering)
        assert (
            compute_resampled_medians(wandering, 0).std()
            > 1.5 * compute_resampled_medians(mixed, 0).std()
        )

    def test_one_value(self) -> None:
        assert set(compute_resampled_medians([7], 0)) == {7}

    def test_a_long_series_stays_cheap(self) -> None:
        medians = compute_resampled_medians(np.arange(40_000), 0)
        assert 200 <= len(medians) < 1000


class TestProcesses:
    def test_one_process_is_a_series(self) -> None:
        series = np.arange(50)
        assert (
            compute_resampled_process_medians([series], 3) == compute_resampled_medians(series, 3)
        ).all()

    def test_variance_between_processes_widens_the_interval(self) -> None:
        # Iterations agree within each process; the processes do not.
        generator = np.random.default_rng(4)
        levels = (1000, 1050, 1100, 1150, 1200)
        processes = [level + generator.normal(0, 1, 40) for level in levels]
        spread = compute_interval(
            compute_resampled_process_medians(processes, 0), 200, len(processes)
        )
        assert (spread.samples, spread.processes) == (200, 5)
        assert spread.low < 1050
        assert (spread.high or 0) > 1150
        # As one series they seem to agree far better than they do.
        alone = compute_interval(compute_resampled_medians(np.concatenate(processes), 0), 200)
        assert (alone.high or 0) - alone.low < (spread.high or 0) - spread.low

    def test_processes_count_alike_whatever_their_length(self) -> None:
        medians = compute_resampled_process_medians([[10] * 3, [20] * 60, [30] * 3], 0)
        assert {10, 20, 30} <= set(medians)
        assert np.mean(medians < 20) > 0.1

    def test_empty_ones_are_left_out(self) -> None:
        assert set(compute_resampled_process_medians([[7], [], [7]], 0)) == {7}

    @pytest.mark.parametrize("between", [0.0, 0.05])
    def test_the_interval_of_a_ratio_holds_the_true_one(self, between: float) -> None:
        generator = np.random.default_rng(5)
        held = 0
        for _ in range(60):
            drawn = [
                generator.normal(1, between, (5, 1)) * level * generator.normal(1, 0.02, (5, 40))
                for level in (4.0, 1.0)
            ]
            befores = compute_resampled_process_medians(list(drawn[0]), 0)
            afters = compute_resampled_process_medians(list(drawn[1]), 1)
            spread = compute_interval(befores / afters, 200, 5)
            held += spread.low <= 4 <= (spread.high or 0)
        assert held >= 50
