"""All drawings of a report about one experiment, and the colours that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.nodes.measured_graph import measure_graph, node_timing_replays
from graphviz_dash.analysis.nodes.whole_graph import whole_graph
from graphviz_dash.app.compare.charts.static import (
    static_break_even,
    static_time_by_category,
    static_waterfall,
)
from graphviz_dash.charts.static.svg import variables
from graphviz_dash.features.graph.drawing.folded import folded
from graphviz_dash.features.graph.drawing.static import static_dag
from graphviz_dash.features.timeline.view.run import choose, run_timeline
from graphviz_dash.features.timeline.view.static import static_timeline
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
    from graphviz_dash.model.run import Run

_MOST_RUNS = 8
"""Runs of the timeline, in the order of the experiment."""


class StaticCharts(Struct, frozen=True):
    """The charts of a report."""

    pictures: dict[str, str]
    """SVG by what it shows: waterfall, where, break-even, timeline, graph; a chart that cannot be
    drawn is not there."""
    light: str
    """CSS that declares the colours of the charts on light pages."""
    dark: str
    """The same on dark pages."""


def static_charts(comparison: Comparison) -> StaticCharts:
    """The drawings of ``comparison``: those about one run are about its fastest."""
    runs = [run.run for run in comparison.runs]
    charts = {
        "where": static_time_by_category(comparison),
        "timeline": static_timeline([choose(run_timeline(run), None) for run in runs[:_MOST_RUNS]]),
        "graph": _graph(comparison, runs),
    }
    best = comparison.best
    if best is not None:
        charts |= _of_run(comparison, best)
    pictures = {name: markup for name, markup in charts.items() if markup is not None}
    return StaticCharts(pictures, *variables("".join(pictures.values())))


def _of_run(comparison: Comparison, run: RunComparison) -> dict[str, str | None]:
    pictures: dict[str, str | None] = {}
    if not isinstance(run.waterfall, Missing) and run.baseline is not None:
        pictures["waterfall"] = static_waterfall(run.waterfall)
    if not isinstance(run.break_even, Missing):
        pictures["break-even"] = static_break_even(comparison, run.break_even)
    return pictures


def _graph(comparison: Comparison, runs: list[Run]) -> str | None:
    """The largest graph of the fastest run; of the first run with a graph where that has none."""
    first = [comparison.best.run] if comparison.best is not None else []
    run = next((graphed for graphed in (*first, *runs) if graphed.graphs), None)
    if run is None:
        return None
    whole = [graph for graph in run.graphs if graph.parent is None]
    graph = max(whole, key=lambda captured: len(captured.nodes))
    measured = measure_graph(graph, run.graphs, node_timing_replays(run))
    drawn = folded(whole_graph(run, graph.id), None if isinstance(measured, Missing) else measured)
    return static_dag(drawn, f"{run.name} {graph.id}")
