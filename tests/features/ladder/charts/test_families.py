from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.loop.family_report import build_loop_report
from graphviz_dash.features.ladder.analysis.ladder_advice import (
    build_ladder_basis,
    recommend_ladder,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget
from graphviz_dash.features.ladder.charts.families import draw_family, draw_ladder
from graphviz_dash.ingest.load import load_experiment, load_run
from graphviz_dash.model.absence import Missing
from tests.loops import make_server
from tests.samples import SAMPLES


def test_times_that_differ_in_their_last_bit_have_an_axis_around_them(tmp_path: Path) -> None:
    """The same times summed in another order: an axis between them has no height, and the browser
    had coordinates of Infinity."""
    requests = [size for size in (1, 2, 4, 8) for _ in range(50)]
    path = make_server(
        tmp_path, sizes=(1, 2, 4, 8), requests=requests, gpu_ns=lambda _size: 2_653_193
    )
    report = build_loop_report(load_run(path))
    assert not isinstance(report, Missing)
    data = build_ladder_data(report, report.families[0])
    assert not isinstance(data, Missing)
    advice = recommend_ladder(build_ladder_basis(data), Budget())
    assert not isinstance(advice, Missing)
    least = advice.curve[-1][1]
    noisy = tuple((count, least * (1 + count % 2 * 2e-16)) for count, _ in advice.curve)
    chart = draw_ladder(replace(advice, curve=noisy), "light")
    assert chart is not None
    low, high = chart.layout.yaxis.range
    assert high - low > 0.05 * high


def test_a_wide_axis_of_sizes_has_more_ticks_than_powers_of_ten() -> None:
    report = build_loop_report(load_experiment(SAMPLES / "recorded-server", traces=False).runs[0])
    assert not isinstance(report, Missing)
    chart = draw_family(report.families[0], (), "light")
    assert chart is not None
    texts = chart.layout.xaxis.ticktext
    assert {"10", "20", "50", "100", "200"} <= set(texts)


@pytest.mark.parametrize(
    ("sample", "family", "ticks"),
    [
        ("recorded-vllm", "piecewise", ["48", "64", "128", "256", "512", "1,024"]),
        ("recorded-sglang", "decode", ["16", "24", "32", "48"]),
    ],
)
def test_sizes_above_the_largest_graph_have_ticks(
    sample: str, family: str, ticks: list[str]
) -> None:
    report = build_loop_report(load_experiment(SAMPLES / sample, traces=False).runs[0])
    assert not isinstance(report, Missing)
    (drawn,) = (each for each in report.families if each.family.name == family)
    chart = draw_family(drawn, (), "light")
    assert chart is not None
    axis = chart.layout.xaxis
    assert list(axis.ticktext[-len(ticks) :]) == ticks
    # The strokes and the label of the largest size are complete.
    assert axis.autorangeoptions.include > axis.tickvals[-1]


def test_the_page_renders_the_legend_of_lines_by_other_numbers() -> None:
    """A legend of Plotly that wrapped in a narrow window covers the lines of a wider one."""
    run = load_experiment(SAMPLES / "recorded-batching", traces=False).runs[0]
    report = build_loop_report(run)
    assert not isinstance(report, Missing)
    chart = draw_family(report.families[0], (), "light")
    assert chart is not None
    assert chart.layout.showlegend is False
    names = [key["name"] for key in chart.layout.meta["keys"]]
    assert "with 4,096, 1,024" in names
    assert len(names) == len({trace.name for trace in chart.data if trace.showlegend})
