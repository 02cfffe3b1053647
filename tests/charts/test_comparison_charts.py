"""The pictures of a comparison say what the figures say."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from graphviz_dash.analysis.compare import Comparison, compare
from graphviz_dash.charts.comparison import (
    break_even_chart,
    iterations_chart,
    where_time_goes_chart,
)
from graphviz_dash.charts.palette import CATEGORY, MODE
from graphviz_dash.ingest.load import load_experiment


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(load_experiment(Path("sample_traces/mlp-train")))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_bars_add_up_to_the_clean_step(
    comparison: Comparison, theme: Literal["light", "dark"]
) -> None:
    figure = where_time_goes_chart(comparison, theme)
    assert figure is not None
    for place, run in enumerate(comparison.runs):
        total = sum(bar.x[place] for bar in figure.data)
        assert total * 1e3 == pytest.approx(run["step_time"].value)
    colours = {bar.name: bar.marker.color for bar in figure.data}
    for category, shade in CATEGORY.items():
        if category.value in colours:
            assert colours[category.value] == (shade.light if theme == "light" else shade.dark)


def test_every_iteration_is_a_point(comparison: Comparison) -> None:
    figure = iterations_chart(comparison, "light")
    assert figure is not None
    for trace, run in zip(figure.data, comparison.runs, strict=True):
        assert run.run.clean is not None
        assert len(trace.y) == len(run.run.clean.steps)
        assert trace.marker.color == MODE[run.mode].light


def test_lines_cross_where_the_graph_has_paid(comparison: Comparison) -> None:
    run = comparison["graph"]
    figure = break_even_chart(comparison, run, "light")
    assert figure is not None
    base, graph = (line for line in figure.data if line.name in ("eager", "graph"))
    replays = run["break_even"].value
    assert replays is not None
    for steps, before, after in zip(base.x, base.y, graph.y, strict=True):
        assert (after <= before) == (steps >= replays)


def test_nothing_to_show_is_no_picture(comparison: Comparison) -> None:
    failed = compare(load_experiment(Path("sample_traces/sync-in-step")))
    assert break_even_chart(failed, failed["eager"], "light") is None
    assert break_even_chart(comparison, comparison["compile"], "light") is None
