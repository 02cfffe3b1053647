from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.program_step import list_step_times
from graphviz_dash.analysis.step_comparison.time_by_category import WAITING_FOR_RANKS
from graphviz_dash.analysis.step_comparison.waterfall import Waterfall
from graphviz_dash.app.compare.charts.comparison import (
    draw_break_even,
    draw_iterations,
    draw_time_breakdown,
)
from graphviz_dash.charts.figures.axes import compute_log_ticks
from graphviz_dash.charts.figures.theme import build_translucent
from graphviz_dash.charts.palette import BASELINE, CATEGORY_SHADES, RUN, get_run_shade
from graphviz_dash.charts.shades import IDLE, Theme, get_colour
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Failure, Pass
from tests.builders import make_experiment, make_run
from tests.samples import compared_sample


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare_runs(load_experiment(make_experiment(tmp_path_factory.mktemp("charts") / "toy")))


@pytest.fixture(scope="module")
def recorded() -> Comparison:
    return compared_sample("mlp-train")


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("charts") / "failed"
    make_run(folder, "graph", failure=Failure(Pass.CLEAN, "Error", "no", None, ""))
    return compare_runs(load_experiment(folder))


def test_the_bars_of_a_run_add_up_to_its_clean_step(result: Comparison) -> None:
    figure = draw_time_breakdown(result, "light")
    assert figure is not None
    for place, run in enumerate(result.runs):
        total = sum(bar.x[place] for bar in figure.data)
        assert total * 1e3 == pytest.approx(run["step_time"].value)
    assert [note.text for note in figure.layout.annotations] == ["400 µs", "100 µs"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_so_do_those_of_recorded_runs(recorded: Comparison, theme: Theme) -> None:
    figure = draw_time_breakdown(recorded, theme)
    assert figure is not None
    for place, run in enumerate(recorded.runs):
        total = sum(bar.x[place] for bar in figure.data)
        assert total * unit_of(figure) == pytest.approx(run["step_time"].value)
    colours = {bar.name: bar.marker.color for bar in figure.data}
    for category, colour in CATEGORY_SHADES.items():
        if category.value in colours:
            assert colours[category.value] == get_colour(colour, theme)


def unit_of(figure: Any) -> float:
    """Return the unit of a figure's time axis in ns."""
    return {"µs": 1e3, "ms": 1e6}[figure.layout.meta["axis"].split()[0]]


def test_a_bar_is_as_long_as_its_step_where_its_traced_work_took_longer(tmp_path: Path) -> None:
    make_run(tmp_path / "short", "eager", wall_ns=20_000)
    make_run(tmp_path / "short", "graph", wall_ns=100_000)
    compared = compare_runs(load_experiment(tmp_path / "short"))
    longer = compared["eager"]
    assert not isinstance(longer.time_by_category, Missing)
    assert longer.time_by_category.excess_ns is not None
    figure = draw_time_breakdown(compared, "light")
    assert figure is not None
    for at, run in enumerate(compared.runs):
        assert sum(bar.x[at] for bar in figure.data) * 1e3 == pytest.approx(run.step.value)


def test_legend_and_title_are_left_to_the_page_and_times_have_room(tmp_path: Path) -> None:
    make_run(tmp_path / "toy", "eager", wall_ns=100_000)
    figure = draw_time_breakdown(compare_runs(load_experiment(tmp_path / "toy")), "light")
    assert figure is not None
    layout = figure.layout
    assert layout.showlegend is False
    assert layout.xaxis.title.text is None
    keys = layout.meta["keys"]
    assert [key["name"] for key in keys] == [bar.name for bar in figure.data]
    assert [key["hatching"] for key in keys][-1] == "/"
    (time,) = layout.annotations
    assert layout.margin.r > 7 * len(time.text)


def test_many_names_take_two_lines_under_the_iterations(tmp_path: Path) -> None:
    names = ("eager", "graph", "callables", "partial", "compile")
    for name in names:
        make_run(tmp_path / "toy", name)
    points = draw_iterations(compare_runs(load_experiment(tmp_path / "toy")), "light")
    assert points is not None
    shown = points.layout.xaxis.ticktext
    assert [name.startswith("<br>") for name in shown] == [False, True, False, True, False]


def test_an_axis_counts_in_the_unit_of_its_longest_time(tmp_path: Path) -> None:
    make_run(tmp_path / "long", "eager", wall_ns=20_000_000)
    make_run(tmp_path / "long", "graph", wall_ns=100_000)
    compared = compare_runs(load_experiment(tmp_path / "long"))
    figure = draw_time_breakdown(compared, "light")
    points = draw_iterations(compared, "light")
    assert figure is not None
    assert points is not None
    assert figure.layout.meta["axis"].startswith("ms per step")
    assert sum(bar.x[0] for bar in figure.data) == pytest.approx(20)
    assert set(points.layout.yaxis.ticktext) >= {"100 µs", "1 ms", "10 ms"}


def test_waiting_for_other_ranks_is_no_work_and_a_bar_ends_with_its_step() -> None:
    found = compared_sample("tp-transformer")
    figure = draw_time_breakdown(found, "light")
    assert figure is not None
    waiting = next(bar for bar in figure.data if bar.name == WAITING_FOR_RANKS)
    for run, shown in zip(found.runs, waiting.x, strict=True):
        assert not isinstance(run.time_by_category, Missing)
        assert shown * unit_of(figure) == pytest.approx(run.time_by_category.waiting_ns)
        # No longer than the step, though the profiler lets collectives wait for longer.
        assert run.time_by_category.excess_ns is None
        equation = run.waterfall
        if isinstance(equation, Waterfall):
            assert run.time_by_category.waiting_ns == equation.after.ranks > 0


def test_every_iteration_is_a_point(recorded: Comparison) -> None:
    figure = draw_iterations(recorded, "light")
    assert figure is not None
    for trace, run in zip(figure.data, recorded.runs, strict=True):
        assert run.run.clean is not None
        assert len(trace.y) == len(run.run.clean.steps)
        assert trace.marker.color == get_run_shade(run.run).light
    # Each run has its own part of the axis, with its name below.
    spans = [(min(trace.x), max(trace.x)) for trace in figure.data]
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    # None is cut: in a narrow window they have as many lines as they need.
    shown = [name.replace("<br>", "") for name in figure.layout.xaxis.ticktext]
    assert shown == [run.name for run in recorded.runs]
    assert max(name.count("<br>") for name in figure.layout.xaxis.ticktext) == 2


def test_points_of_an_engine_are_the_steps_of_its_median() -> None:
    comparison = compared_sample("recorded-vllm")
    figure = draw_iterations(comparison, "light")
    assert figure is not None
    (points,) = figure.data
    assert list(points.y) == list_step_times(comparison["default-sizes"].run)[::2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_trace_has_a_colour_of_the_palette(result: Comparison, theme: Theme) -> None:
    bars = draw_time_breakdown(result, theme)
    points = draw_iterations(result, theme)
    best = result.best
    assert bars is not None
    assert points is not None
    assert best is not None
    lines = draw_break_even(result, best, theme)
    assert lines is not None
    by_name = {
        category.value: get_colour(colour, theme) for category, colour in CATEGORY_SHADES.items()
    }
    for bar in bars.data:
        if bar.name == "GPU idle":
            assert bar.marker.pattern.fgcolor == get_colour(IDLE, theme)
        else:
            assert bar.marker.color == by_name[bar.name]
    inks = [get_colour(each, theme) for each in (BASELINE, RUN)]
    assert [trace.marker.color for trace in points.data] == inks
    drawn = [trace for trace in lines.data if trace.line.width]
    assert [(trace.line.color, trace.line.dash) for trace in drawn] == [
        (inks[1], "dash"),
        (inks[1], "solid"),
    ]


def test_the_page_has_the_legend_of_lines_and_their_interval(result: Comparison) -> None:
    assert result.best is not None
    figure = draw_break_even(result, result.best, "light")
    assert figure is not None
    assert figure.layout.showlegend is False
    colour = get_colour(RUN, "light")
    band = {"colour": build_translucent(colour), "hatching": ""}
    assert figure.layout.meta["keys"] == [
        {"name": "95% interval", **band},
        {"name": "eager", "colour": colour, "dash": "dash", "mark": ""},
        {"name": "graph", "colour": colour, "dash": "solid", "mark": ""},
    ]


def test_the_lines_cross_where_the_graph_has_paid_for_itself(result: Comparison) -> None:
    best = result.best
    assert best is not None
    figure = draw_break_even(result, best, "light")
    assert figure is not None
    eager, graph = (trace for trace in figure.data if trace.line.width)
    replays = best["break_even"].value
    assert replays is not None
    cheaper = [x for x, a, b in zip(eager.x, eager.y, graph.y, strict=True) if b <= a]
    dearer = [x for x, a, b in zip(eager.x, eager.y, graph.y, strict=True) if b > a]
    assert max(dearer) < replays <= min(cheaper) + 1


def test_the_lines_of_a_recorded_run_cross_there_too(recorded: Comparison) -> None:
    run = recorded["graph"]
    figure = draw_break_even(recorded, run, "light")
    assert figure is not None
    base, graph = (line for line in figure.data if line.name in ("eager", "graph"))
    replays = run["break_even"].value
    assert replays is not None
    for steps, before, after in zip(base.x, base.y, graph.y, strict=True):
        assert (after <= before) == (steps >= replays)


def test_a_run_that_never_pays_has_no_lines(recorded: Comparison) -> None:
    eager = compared_sample("sync-in-step")
    assert draw_break_even(eager, eager["eager"], "light") is None
    assert draw_break_even(recorded, recorded["compile"], "light") is None


def test_without_clean_or_traced_passes_there_is_no_picture(failed: Comparison) -> None:
    assert draw_time_breakdown(failed, "light") is None
    assert draw_iterations(failed, "light") is None
    assert draw_break_even(failed, failed.runs[0], "light") is None


@pytest.mark.parametrize(
    ("values", "within"),
    [
        ([1000.0, 1900.0], 4),
        ([640.0, 662.0], 3),
        ([2300.0, 3300.0], 4),
        ([164.0, 2000.0], 3),
        ([5.0, 4e5], 5),
        ([7.0], 1),
        ([], 1),
    ],
)
def test_logarithmic_ticks_are_round_and_enough(values: list[float], within: int) -> None:
    ticks = compute_log_ticks(values)
    assert ticks == sorted(set(ticks))
    low, high = min(values, default=1.0), max(values, default=1.0)
    assert sum(low * 0.8 <= tick <= high * 1.25 for tick in ticks) >= within
    assert len(ticks) <= 40
