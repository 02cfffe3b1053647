from __future__ import annotations

import pytest

from graphviz_dash.charts.figures.axes import choose_time_unit, compute_log_ticks, format_tick


@pytest.mark.parametrize(
    ("longest", "name"),
    [(1.0, "µs"), (999_999.0, "µs"), (1e6, "ms"), (10e6, "ms"), (4.2e9, "s"), (1e13, "s")],
)
def test_an_axis_counts_in_the_unit_of_its_longest_time(longest: float, name: str) -> None:
    assert choose_time_unit(longest).name == name


def test_ticks_over_several_units_name_theirs() -> None:
    texts = [format_tick(tick) for tick in compute_log_ticks([800.0, 2.5e9])]
    assert texts[:3] == ["0.1 µs", "1 µs", "10 µs"]
    assert {"1 ms", "100 ms", "1 s"} <= set(texts)
    assert not any("e+" in text for text in texts)
