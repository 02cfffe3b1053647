"""Launch costs: recordings of known truth in, fits, extras and a verdict out."""

from __future__ import annotations

import pytest

from graphviz_dash.analysis.launch.launch_costs import CONSTANT_SLOPE_NS, launch_costs
from graphviz_dash.model.launch import LaunchMeasure, Topology
from tests.analysis.launches import LENGTHS, REPEAT, lines, recording, series


class TestFit:
    @pytest.mark.parametrize("knee", [0, 32, 256])
    def test_base_slope_and_knee_are_found(self, knee: int) -> None:
        costs = launch_costs(recording(*lines(lambda n: 2000 + 5 * max(0, n - knee))))
        fit = costs.lines[REPEAT]
        assert fit.base_ns == pytest.approx(2000, rel=0.02)
        assert fit.slope_ns == pytest.approx(5, rel=0.05)
        assert abs(fit.knee - knee) <= 0.25 * knee + 8
        # Twice as wide as it is: one series in twenty lies outside a 95% interval.
        half = (fit.base_interval.high or 0) - fit.base_interval.low
        assert fit.base_interval.low - half / 2 <= 2000 <= (fit.base_interval.high or 0) + half / 2
        assert fit.at(2048) == pytest.approx(2000 + 5 * (2048 - knee), rel=0.05)

    def test_intervals_widen_with_the_noise(self) -> None:
        def width(noise: float) -> float:
            fit = launch_costs(recording(*lines(lambda n: 2000 + 5 * n, noise))).lines[REPEAT]
            return (fit.slope_interval.high or 0) - fit.slope_interval.low

        assert width(0.20) > 3 * width(0.01)

    def test_the_same_recording_gives_the_same_result(self) -> None:
        given = recording(*lines(lambda n: 1500 + 2 * n))
        assert launch_costs(given) == launch_costs(given)

    def test_too_few_sizes_give_none(self) -> None:
        costs = launch_costs(recording(*lines(lambda n: 2000)[:3]))
        assert (costs.lines, costs.constant) == ({}, None)

    def test_other_graphs_do_not_move_the_fit_of_lines(self) -> None:
        straight = lines(lambda n: 2000 + 3 * n)
        odd = [
            series(Topology(4, 100, False, None, 400), 9e6),
            series(Topology(1, 100, True, None, 101), 9e6),
            series(Topology(1, 128, False, "Host", 128), 9e6),
        ]
        alone, among = launch_costs(recording(*straight)), launch_costs(recording(*odd, *straight))
        assert alone.lines == among.lines


@pytest.mark.parametrize(("slope", "constant"), [(1, True), (9, True), (12, False), (60, False)])
def test_constant_time_is_a_matter_of_the_slope(slope: float, constant: bool) -> None:
    costs = launch_costs(recording(*lines(lambda n: 2500 + slope * n)))
    assert costs.constant is constant
    assert (costs.lines[REPEAT].slope_ns <= CONSTANT_SLOPE_NS) is constant


class TestExtras:
    def test_a_root(self) -> None:
        widths = (1, 2, 4, 8, 16)
        chains = [series(Topology(w, 10, False, None, 10 * w), 1000 + 900 * w) for w in widths]
        root = launch_costs(recording(*chains)).root
        assert root is not None
        assert root.ns == pytest.approx(900, rel=0.05)
        assert root.interval.low <= 900 <= (root.interval.high or 0)

    def test_chains_with_one_root_say_nothing_of_roots(self) -> None:
        chains = [series(Topology(w, 10, True, None, 10 * w + 1), 1000) for w in (1, 2, 4, 8)]
        assert launch_costs(recording(*chains)).root is None

    def test_a_node_of_another_kind_against_the_line_of_its_length(self) -> None:
        straight = lines(lambda n: 2000 + n)
        host = series(Topology(1, 128, False, "Host", 128), 2000 + 128 + 6000)
        found = launch_costs(recording(*straight, host)).others
        assert list(found) == ["Host"]
        assert found["Host"].ns == pytest.approx(6000, rel=0.05)

    def test_without_a_line_of_its_length_there_is_nothing_to_compare(self) -> None:
        host = series(Topology(1, 77, False, "Host", 77), 8000)
        assert launch_costs(recording(*lines(lambda n: 2000), host)).others == {}


def test_rows_keep_medians_minima_and_what_is_absent() -> None:
    costs = launch_costs(recording(*lines(lambda n: 2000.0, noise=0.0)))
    assert [row.topology.nodes for row in costs.rows] == list(LENGTHS)
    row = costs.rows[0]
    assert row.median(REPEAT) == 2000
    assert row.timings[REPEAT].shortest == 2000
    assert row.median(LaunchMeasure.CAPTURE) is None
    assert row.absent == {LaunchMeasure.UPLOAD_CPU: "not tried"}
