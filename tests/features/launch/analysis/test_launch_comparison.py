from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphviz_dash.bundle.launch import read_launch
from graphviz_dash.bundle.references import find_reference_launches, read_published_launch
from graphviz_dash.features.launch.analysis.launch_comparison import (
    compare_launches,
    compare_published,
)
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, analyze_launch_costs
from graphviz_dash.features.launch.narrative import describe_launch_comparison
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries, Topology
from tests.analysis.launches import REPEAT, lines, recording

LINE = Topology(1, 100, False, None, 100)


def costs(*samples: int, each: int | None) -> LaunchCosts:
    one = recording(LaunchSeries(LINE, {REPEAT: samples}, {}))
    return analyze_launch_costs(replace(one, process_trials=each))


def test_the_spread_is_the_middle_of_all_samples_of_all_processes() -> None:
    timing = costs(*range(101), each=10).rows[0].timings[REPEAT]
    assert (timing.spread.low, timing.spread.high, timing.spread.samples) == (5, 95, 101)


def test_medians_apart_by_less_than_the_spread_are_within_it() -> None:
    first = costs(*range(100, 201), each=None)
    near, far = costs(*range(170, 271), each=None), costs(*range(300, 401), each=None)
    found = compare_launches({"a": first, "b": near})
    assert found is not None
    (one,) = found.differences
    assert one.medians == (150, 220)
    assert one.ratios == (1, pytest.approx(220 / 150))
    assert (one.largest_gap, one.spread, one.is_within_spread) == (70, 90, True)
    assert "1 of 1" in describe_launch_comparison(found)
    beyond = compare_launches({"a": first, "b": near, "c": far})
    assert beyond is not None
    assert [(one.largest_gap, one.is_within_spread) for one in beyond.select(REPEAT)] == [
        (200, False)
    ]


def test_differences_below_the_resolution_of_events_are_within_the_spread() -> None:
    measure = LaunchMeasure.REPEAT_LAUNCH_DEVICE
    near, far = (
        analyze_launch_costs(recording(LaunchSeries(LINE, {measure: (time,) * 9}, {})))
        for time in (1_000, 1_400)
    )
    found = compare_launches({"a": near, "b": far})
    assert found is not None
    assert [(one.largest_gap, one.spread, one.is_within_spread) for one in found.differences] == [
        (400, 500, True)
    ]


def test_only_what_all_recordings_have_is_compared() -> None:
    every = analyze_launch_costs(recording(*lines(lambda n: 2000 + n)))
    some = analyze_launch_costs(recording(*lines(lambda n: 2000 + n)[:3]))
    found = compare_launches({"every": every, "some": some})
    assert found is not None
    assert {one.topology.nodes for one in found.differences} == {1, 2, 4}
    assert compare_launches({"every": every}) is None


def test_published_figures_have_their_source_and_stand_beside_measured_ones() -> None:
    published = read_published_launch()
    assert published.address.startswith("developer.nvidia.com/blog/constant-time-launch")
    printed = [figure for figure in published.times if figure.source == "table 1"]
    assert len(printed) == 15
    for figure in printed:
        # The post's own percentages, rounded from times finer than the whole µs that it prints.
        assert figure.before_us is not None
        assert figure.after_us is not None
        assert figure.speedup is not None
        percent = 100 * (figure.before_us / figure.after_us - 1)
        finer = 100 * 0.5 * (1 / figure.before_us + 1 / figure.after_us) + 0.5
        assert abs(int(figure.speedup.rstrip("%")) - percent) <= finer * (1 + percent / 100)
    rows = compare_published(published, {"mine": costs(2_000, 2_200, 2_400, each=None)})
    repeat = {row.length: row for row in rows if row.measure is REPEAT and row.source == "text"}
    assert (repeat[100].older_ns, repeat[100].newer_ns) == (22_000, 2_600)
    assert repeat[100].medians == {"mine": 2_200}
    assert repeat[1000].medians == {"mine": None}


def test_the_shipped_recording_is_an_h200() -> None:
    (path,) = find_reference_launches().values()
    found = analyze_launch_costs(read_launch(path))
    assert found.recording.environment.gpu.name == "NVIDIA H200"
    assert found.is_constant
