"""Time above the hardware limit in each replay, for gates."""

from __future__ import annotations

from typing import Final

import numpy as np

from graphviz_dash.analysis.metrics.registry import Better, Metric, Source, Unit
from graphviz_dash.analysis.nodes.measured_graph import find_timing_replays
from graphviz_dash.analysis.nodes.whole_graph import expand_graph
from graphviz_dash.features.efficiency.analysis.ceilings_choice import choose_ceilings
from graphviz_dash.features.efficiency.analysis.report import measure_graph_efficiency
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run

EXCESS_METRIC: Final = Metric(
    "time_above_limit",
    "Time above the hardware limit",
    Unit.NANOSECONDS,
    Source.TRACED,
    Better.LOWER,
    "Sum over the operators of a graph of the time above the limit of the GPU, per replay.",
)


def compute_excess_series(run: Run) -> tuple[int, ...] | Missing:
    """Compute the time above the limit in each replay, in ns.

    Missing for runs without limits of their GPU, or with several graphs.
    """
    outer = [graph.id for graph in run.graphs if graph.parent is None]
    choice = choose_ceilings(run)
    if isinstance(choice, Missing):
        return choice
    if len(outer) != 1:
        return Missing(Fact.GRAPHS, "the run has no graph, or several")
    full_graph = expand_graph(run, outer[0])
    report = measure_graph_efficiency(full_graph, choice)
    replay_match = find_timing_replays(run)
    if isinstance(report, Missing):
        return report
    if replay_match is None or not report.known_ns:
        return Missing(Fact.NODE_TIMES, "no operator has times and a known limit")
    replays = full_graph.table.replays
    excess = np.zeros(replays)
    for limit in report.limits:
        if limit.limit_ns is None:
            continue
        owners = [full_graph.owners[report.items[position].index] for position in limit.unit.items]
        samples = [replay_match.get_samples(graph, node) for graph, node in owners]
        if all(len(durations) == replays for durations in samples):
            excess += np.maximum(np.sum(samples, axis=0) - limit.limit_ns, 0.0)
    return tuple(np.rint(excess).astype(int).tolist())
