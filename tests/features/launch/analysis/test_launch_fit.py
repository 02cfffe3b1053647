from __future__ import annotations

import pytest

from graphviz_dash.features.launch.analysis.launch_costs import analyze_launch_costs
from graphviz_dash.model.launch import Topology
from tests.analysis.launches import REPEAT, lines, recording, series


class TestFit:
    @pytest.mark.parametrize("knee", [0, 32, 256])
    def test_base_slope_and_knee_are_found(self, knee: int) -> None:
        costs = analyze_launch_costs(recording(*lines(lambda n: 2000 + 5 * max(0, n - knee))))
        fit = costs.lines[REPEAT]
        assert fit.base_ns == pytest.approx(2000, rel=0.02)
        assert fit.slope_ns == pytest.approx(5, rel=0.05)
        assert abs(fit.knee - knee) <= 0.25 * knee + 8
        # Twice as wide as it is: one series in twenty lies outside a 95% interval.
        half = (fit.base_interval.high or 0) - fit.base_interval.low
        assert fit.base_interval.low - half / 2 <= 2000 <= (fit.base_interval.high or 0) + half / 2
        assert fit.evaluate(2048) == pytest.approx(2000 + 5 * (2048 - knee), rel=0.05)

    def test_intervals_widen_with_the_noise(self) -> None:
        def width(noise: float) -> float:
            fit = analyze_launch_costs(recording(*lines(lambda n: 2000 + 5 * n, noise))).lines[
                REPEAT
            ]
            return (fit.slope_interval.high or 0) - fit.slope_interval.low

        assert width(0.20) > 3 * width(0.01)

    def test_the_same_recording_gives_the_same_result(self) -> None:
        given = recording(*lines(lambda n: 1500 + 2 * n))
        assert analyze_launch_costs(given) == analyze_launch_costs(given)

    def test_too_few_sizes_give_none(self) -> None:
        costs = analyze_launch_costs(recording(*lines(lambda n: 2000)[:3]))
        assert (costs.lines, costs.is_constant) == ({}, None)

    def test_other_graphs_do_not_move_the_fit_of_lines(self) -> None:
        straight = lines(lambda n: 2000 + 3 * n)
        odd = [
            series(Topology(4, 100, False, None, 400), 9e6),
            series(Topology(1, 100, True, None, 101), 9e6),
            series(Topology(1, 128, False, "Host", 128), 9e6),
        ]
        alone, among = (
            analyze_launch_costs(recording(*straight)),
            analyze_launch_costs(recording(*odd, *straight)),
        )
        assert alone.lines == among.lines
