"""All charts of a report about one experiment, and their colours."""

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
"""Maximum number of runs in the timeline, in the order of the experiment."""


class StaticCharts(Struct, frozen=True):
    """Charts of a report."""

    pictures: dict[str, str]
    """SVG by name: waterfall, where, break-even, timeline, graph; missing if not available."""
    light: str
    """CSS declarations of chart colours for light pages."""
    dark: str
    """CSS declarations of chart colours for dark pages."""


def static_charts(comparison: Comparison) -> StaticCharts:
    """Draw the charts of ``comparison``; single-run charts show the fastest run."""
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
    """Draw the largest graph of the fastest run, or else of the first run with a graph."""
    best_runs = [comparison.best.run] if comparison.best is not None else []
    run = next((graphed for graphed in (*best_runs, *runs) if graphed.graphs), None)
    if run is None:
        return None
    top_level = [graph for graph in run.graphs if graph.parent is None]
    graph = max(top_level, key=lambda captured: len(captured.nodes))
    measured = measure_graph(graph, run.graphs, node_timing_replays(run))
    graph_view = folded(
        whole_graph(run, graph.id), None if isinstance(measured, Missing) else measured
    )
    return static_dag(graph_view, f"{run.name} {graph.id}")
