from __future__ import annotations

import pytest

from graphviz_dash.bundle.references import read_published_launch
from graphviz_dash.charts.shades import Theme
from graphviz_dash.features.launch.analysis.launch_costs import analyze_launch_costs
from graphviz_dash.features.launch.analysis.observer_effect import (
    ObserverEffect,
    compute_observer_effect,
)
from graphviz_dash.features.launch.analysis.own_graphs import list_program_graphs
from graphviz_dash.features.launch.charts.launch import draw_launch_costs
from graphviz_dash.features.launch.charts.observers import draw_observers
from graphviz_dash.features.launch.observer_narrative import MEASURE_TITLES, OBSERVER_TITLES
from graphviz_dash.model.launch import LaunchMeasure, Topology
from graphviz_dash.model.observers import Observer
from graphviz_dash.model.run import Experiment
from graphviz_dash.ui.page.markup import format_legend
from tests.analysis.launches import LENGTHS, REPEAT, lines, recording, series
from tests.features.launch.analysis.test_observer_effect import SERIES, run_with
from tests.features.launch.analysis.test_own_graphs import LINE, run_of

CHAINS = [series(Topology(4, n, False, None, 4 * n), 5000.0 + n) for n in (10, 50, 100, 256)]
COSTS = analyze_launch_costs(recording(*lines(lambda n: 2000 + n, noise=0.0), *CHAINS))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("log", [True, False])
def test_lines_and_chains_over_their_nodes(theme: Theme, log: bool) -> None:
    figure = draw_launch_costs({"a": COSTS}, REPEAT, theme, log=log)
    assert figure is not None
    by_name = {one.name: one for one in figure.data}
    assert list(by_name["linear chains"].x) == list(LENGTHS)
    assert list(by_name["linear chains"].y) == [(2000 + n) / 1e3 for n in LENGTHS]
    assert list(by_name["parallel chains"].x) == [40, 200, 400, 1024]
    kind = "log" if log else "linear"
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == (kind, kind)


@pytest.mark.parametrize("log", [True, False])
def test_plotly_is_told_the_margins_and_draws_once(log: bool) -> None:
    figure = draw_launch_costs({"a": COSTS}, REPEAT, "light", log=log)
    assert figure is not None
    effect = compute_observer_effect(run_with(*SERIES))
    assert isinstance(effect, ObserverEffect)
    for chart in (figure, draw_observers(effect, "light")):
        layout = chart.layout
        assert (layout.xaxis.automargin, layout.yaxis.automargin) == (False, False)
        longest = max(map(len, layout.yaxis.ticktext or ["3.000"]))
        assert layout.margin.l > 5 * longest


def test_the_page_has_the_legend_which_wraps_without_covering_the_plot() -> None:
    figure = draw_launch_costs({"a": COSTS}, REPEAT, "light", log=True)
    assert figure is not None
    assert figure.layout.showlegend is False
    keys = [(key["name"], key["dash"], key["mark"]) for key in figure.layout.meta["keys"]]
    assert keys[:2] == [("linear chains", "solid", "●"), ("parallel chains", "dot", "□")]
    markup = format_legend(figure.layout.meta["keys"])
    assert 'class="stroke dot"' in markup
    assert 'data-mark="□"' in markup


def test_a_measure_that_no_recording_has_gives_no_picture() -> None:
    assert draw_launch_costs({"a": COSTS}, LaunchMeasure.UPLOAD_CPU, "light", log=True) is None


def test_own_graphs_are_marks_where_they_lie() -> None:
    own = list_program_graphs(
        Experiment(run_of(LINE, 4800).path, (run_of(LINE, 4800),)), {"a": COSTS}
    )
    figure = draw_launch_costs({"a": COSTS}, REPEAT, "light", log=True, program_graphs=own)
    assert figure is not None
    (marks,) = (one for one in figure.data if one.name == "your graphs")
    assert (list(marks.x), list(marks.y)) == ([100], [4.8])
    assert "graph-0" in marks.text[0]


def test_published_lines_and_points_are_drawn_with_their_source() -> None:
    published = read_published_launch()
    figure = draw_launch_costs({"a": COSTS}, REPEAT, "dark", log=True, published=published)
    assert figure is not None
    by_name = {one.name: one for one in figure.data}
    newer = by_name["published, toolkit 12.6"]
    assert newer.y[0] == pytest.approx((2500 + newer.x[0]) / 1e3)
    assert "RTX 3060" in newer.hovertemplate
    capture = {
        LaunchMeasure.INSTANTIATION: (9000,) * 8,
        REPEAT: (9000,) * 8,
    }
    one = recording(*[type(line)(line.topology, capture, {}) for line in lines(lambda n: 1)])
    figure = draw_launch_costs(
        {"a": analyze_launch_costs(one)},
        LaunchMeasure.INSTANTIATION,
        "light",
        log=True,
        published=published,
    )
    assert figure is not None
    points = {drawn.name: drawn for drawn in figure.data}["published, toolkit 11.8"]
    assert dict(zip(points.x, points.y, strict=True))[1025] == 2143


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_ratio_of_every_observer_has_its_mark(theme: Theme) -> None:
    effect = compute_observer_effect(run_with(*SERIES))
    assert isinstance(effect, ObserverEffect)
    figure = draw_observers(effect, theme)
    watched = [row for row in effect.rows if row.observer is not Observer.NONE]
    assert list(figure.layout.yaxis.ticktext) == [OBSERVER_TITLES[row.observer] for row in watched]
    for drawn, (measure, (title, _)) in zip(figure.data, MEASURE_TITLES.items(), strict=True):
        assert drawn.name == title
        known = [row.effects[measure] for row in watched if measure in row.effects]
        assert list(drawn.x) == [one.ratio for one in known]
        # Within its observer's row.
        assert all(abs(place - round(place)) < 0.5 for place in drawn.y)
