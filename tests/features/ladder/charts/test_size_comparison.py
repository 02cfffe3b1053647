from __future__ import annotations

from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.features.ladder.analysis.size_comparison import compare_sizes
from graphviz_dash.features.ladder.charts.size_comparison import draw_size_comparison
from graphviz_dash.ingest.load import load_outlines
from tests.samples_once import SAMPLES


def test_ticks_are_the_sizes_of_timed_graphs() -> None:
    """Plotly's own ticks of 1, 8 and 32 requests began at 0.9."""
    reports = map(build_loop_report, load_outlines(SAMPLES / "recorded-decoder"))
    (compared,) = compare_sizes([report for report in reports if isinstance(report, LoopReport)])
    figure = draw_size_comparison(compared, "light")
    assert figure is not None
    assert list(figure.layout.xaxis.ticktext) == ["1", "8", "32"]
