from __future__ import annotations

import pytest

from graphviz_dash.features.launch.analysis.launch_costs import (
    CONSTANT_SLOPE_NS,
    analyze_launch_costs,
)
from graphviz_dash.model.launch import LaunchMeasure, Topology
from tests.analysis.launches import LENGTHS, REPEAT, lines, recording, series


@pytest.mark.parametrize(("slope", "constant"), [(1, True), (9, True), (12, False), (60, False)])
def test_constant_time_is_a_matter_of_the_slope(slope: float, constant: bool) -> None:
    costs = analyze_launch_costs(recording(*lines(lambda n: 2500 + slope * n)))
    assert costs.is_constant is constant
    assert (costs.lines[REPEAT].slope_ns <= CONSTANT_SLOPE_NS) is constant


class TestExtras:
    def test_a_root(self) -> None:
        widths = (1, 2, 4, 8, 16)
        chains = [series(Topology(w, 10, False, None, 10 * w), 1000 + 900 * w) for w in widths]
        root = analyze_launch_costs(recording(*chains)).root
        assert root is not None
        assert root.ns == pytest.approx(900, rel=0.05)
        assert root.interval.low <= 900 <= (root.interval.high or 0)

    def test_chains_with_one_root_say_nothing_of_roots(self) -> None:
        chains = [series(Topology(w, 10, True, None, 10 * w + 1), 1000) for w in (1, 2, 4, 8)]
        assert analyze_launch_costs(recording(*chains)).root is None

    def test_a_node_of_another_kind_against_the_line_of_its_length(self) -> None:
        straight = lines(lambda n: 2000 + n)
        host = series(Topology(1, 128, False, "Host", 128), 2000 + 128 + 6000)
        found = analyze_launch_costs(recording(*straight, host)).others
        assert list(found) == ["Host"]
        assert found["Host"].ns == pytest.approx(6000, rel=0.05)

    def test_without_a_line_of_its_length_there_is_nothing_to_compare(self) -> None:
        host = series(Topology(1, 77, False, "Host", 77), 8000)
        assert analyze_launch_costs(recording(*lines(lambda n: 2000), host)).others == {}


def test_the_samples_that_it_summarises_are_not_kept() -> None:
    recorded = recording(*lines(lambda n: 2000 + n))
    costs = analyze_launch_costs(recorded)
    assert (costs.recording.series, costs.recording.call_ns, costs.recording.clock_ns) == ((),) * 3
    assert costs.recording.environment == recorded.environment


def test_rows_keep_medians_minima_and_what_is_absent() -> None:
    costs = analyze_launch_costs(recording(*lines(lambda n: 2000.0, noise=0.0)))
    assert [row.topology.nodes for row in costs.rows] == list(LENGTHS)
    row = costs.rows[0]
    assert row.get_median(REPEAT) == 2000
    assert row.timings[REPEAT].minimum == 2000
    assert row.get_median(LaunchMeasure.CAPTURE) is None
    assert row.absent == {LaunchMeasure.UPLOAD_CPU: "not tried"}
