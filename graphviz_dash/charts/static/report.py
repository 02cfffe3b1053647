"""All drawings of a report about one experiment, and the colours that they use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphviz_dash.analysis.nodes.measured_graph import measure_graph, node_timing_replays
from graphviz_dash.analysis.nodes.whole_graph import whole_graph
from graphviz_dash.charts.dag.folded import folded
from graphviz_dash.charts.static.comparison import break_even_still, waterfall_still, where_still
from graphviz_dash.charts.static.dag import dag_still
from graphviz_dash.charts.static.svg import variables
from graphviz_dash.charts.static.timeline import timeline_still
from graphviz_dash.charts.timeline.run import choose, run_timeline
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
    from graphviz_dash.model.run import Run

_MOST_RUNS = 8
"""Runs of the timeline, in the order of the experiment."""


@dataclass(frozen=True)
class Stills:
    """Drawings as SVG by what they show: waterfall, where, break-even, timeline, graph. One that
    cannot be drawn is not there. ``light`` and ``dark`` declare their colours, as CSS."""

    pictures: dict[str, str]
    light: str
    dark: str


def stills(comparison: Comparison) -> Stills:
    """The drawings of ``comparison``: those about one run are about its fastest."""
    runs = [run.run for run in comparison.runs]
    drawn = {
        "where": where_still(comparison),
        "timeline": timeline_still([choose(run_timeline(run), None) for run in runs[:_MOST_RUNS]]),
        "graph": _graph(comparison, runs),
    }
    best = comparison.best
    if best is not None:
        drawn |= _of_run(comparison, best)
    pictures = {name: markup for name, markup in drawn.items() if markup is not None}
    return Stills(pictures, *variables("".join(pictures.values())))


def _of_run(comparison: Comparison, run: RunComparison) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    if run.waterfall is not None and run.baseline is not None:
        modes = comparison[run.baseline].mode, run.mode
        found["waterfall"] = waterfall_still(run.waterfall, modes)
    if run.pays is not None:
        found["break-even"] = break_even_still(comparison, run.pays)
    return found


def _graph(comparison: Comparison, runs: list[Run]) -> str | None:
    """The largest graph of the fastest run; of the first run with a graph where that has none."""
    first = [comparison.best.run] if comparison.best is not None else []
    run = next((one for one in (*first, *runs) if one.graphs), None)
    if run is None:
        return None
    whole = [graph for graph in run.graphs if graph.parent is None]
    graph = max(whole, key=lambda one: len(one.nodes))
    measured = measure_graph(graph, run.graphs, node_timing_replays(run))
    drawn = folded(whole_graph(run, graph.id), None if isinstance(measured, Missing) else measured)
    return dag_still(drawn, f"{run.name} {graph.id}")
