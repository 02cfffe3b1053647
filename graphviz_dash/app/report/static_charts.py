"""All charts of a report about one experiment, and their colours."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.nodes.measured_graph import find_timing_replays, measure_graph
from graphviz_dash.analysis.nodes.replay_faults import find_graph_faults
from graphviz_dash.analysis.nodes.whole_graph import expand_graph, expand_graphs
from graphviz_dash.app.compare.charts.static import (
    draw_break_even,
    draw_time_by_category,
    draw_waterfall,
)
from graphviz_dash.charts.static.replay_stops import draw_replay_stops
from graphviz_dash.charts.static.svg import declare_variables
from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.folded import build_folded_graph
from graphviz_dash.features.graph.drawing.static import draw_dag
from graphviz_dash.features.timeline.view.run import build_run_timeline, choose_step
from graphviz_dash.features.timeline.view.static import draw_timeline
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
    from graphviz_dash.model.run import Run

_MAX_RUNS = 8
"""Runs in the timeline, in the order of the experiment."""


class StaticCharts(Struct, frozen=True):
    """Charts of a report."""

    pictures: dict[str, str]
    """SVG by name: waterfall, where, break-even, timeline, graph, replay-stops;
    missing if not available."""
    light: str
    """CSS declarations of chart colours for light pages."""
    dark: str
    """CSS declarations of chart colours for dark pages."""


def draw_charts(comparison: Comparison) -> StaticCharts:
    """Draw the charts of ``comparison``; single-run charts show the fastest run."""
    runs = [run.run for run in comparison.runs]
    charts = {
        "where": draw_time_by_category(comparison),
        "timeline": draw_timeline(
            [choose_step(build_run_timeline(run), None) for run in runs[:_MAX_RUNS]]
        ),
        "graph": _draw_graph(comparison, runs),
        "replay-stops": draw_replay_stops(
            [fault for _, diagnosis in comparison.replay_diagnoses for fault in diagnosis.stops]
        ),
    }
    best = comparison.best
    if best is not None:
        charts |= _draw_run_charts(comparison, best)
    pictures = {name: markup for name, markup in charts.items() if markup is not None}
    return StaticCharts(pictures, *declare_variables("".join(pictures.values())))


def _draw_run_charts(comparison: Comparison, run: RunComparison) -> dict[str, str | None]:
    pictures: dict[str, str | None] = {}
    if not isinstance(run.waterfall, Missing) and run.baseline is not None:
        pictures["waterfall"] = draw_waterfall(run.waterfall)
    if not isinstance(run.break_even, Missing):
        pictures["break-even"] = draw_break_even(comparison, run.break_even)
    return pictures


def _draw_graph(comparison: Comparison, runs: list[Run]) -> str | None:
    """Draw the first graph with faults, or else the largest of the fastest run or of the first with
    a graph."""
    if comparison.replay_diagnoses:
        drawing = _draw_faults(comparison, runs)
        if drawing is not None:
            return drawing
    best_runs = [comparison.best.run] if comparison.best is not None else []
    run = next((graph_run for graph_run in (*best_runs, *runs) if graph_run.graphs), None)
    if run is None:
        return None
    top_level = [graph for graph in run.graphs if graph.parent is None]
    graph = max(top_level, key=lambda captured: len(captured.nodes))
    timed_graph = measure_graph(graph, run.graphs, find_timing_replays(run))
    graph_view = build_folded_graph(
        expand_graph(run, graph.id), None if isinstance(timed_graph, Missing) else timed_graph
    )
    return draw_dag(graph_view, f"{run.name} {graph.id}")


def _draw_faults(comparison: Comparison, runs: list[Run]) -> str | None:
    """Draw the first graph with wrong or stopped replays. None if its faults are in no graph."""
    for run in runs:
        ids = [graph.id for graph in run.graphs]
        for graph, full_graph in zip(run.graphs, expand_graphs(run, ids), strict=True):
            faults = find_graph_faults(comparison.replay_diagnoses, run.name, full_graph)
            if faults is not None and faults.faults:
                marked_graph = build_folded_graph(full_graph, faults=partial(dict, faults.states))
                return draw_dag(marked_graph, f"{run.name} {graph.id}", ColourBy.FAULT)
    return None
