"""Time above the hardware limit in each replay or step, for gates."""

from __future__ import annotations

from typing import Final

import numpy as np

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.metrics.registry import Better, Metric, Source, Unit
from graphviz_dash.analysis.nodes.measured_graph import find_timing_replays
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graphs
from graphviz_dash.analysis.replays.replay_steps import find_replay_steps
from graphviz_dash.analysis.replays.replays import ReplayMatch
from graphviz_dash.features.efficiency.analysis.ceilings_choice import choose_ceilings
from graphviz_dash.features.efficiency.analysis.report import (
    NO_REPLAYS,
    EfficiencyReport,
    measure_graph_efficiency,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run

EXCESS_METRIC: Final = Metric(
    "time_above_limit",
    "Time above the hardware limit",
    Unit.NANOSECONDS,
    Source.TRACED,
    Better.LOWER,
    "Sum over the operators of the graphs of the time above the limit of the GPU, per replay of a "
    "single graph, or per step.",
)

_NO_TIMES: Final = "no operator has times and a known limit"


def compute_excess_series(run: Run) -> tuple[int, ...] | Missing:
    """Compute the time above the limit in each replay of a single graph, or in each step, in ns.

    Missing for runs without limits of their GPU.
    """
    choice = choose_ceilings(run)
    if isinstance(choice, Missing):
        return choice
    outer = [graph.id for graph in run.graphs if graph.parent is None]
    replays = find_timing_replays(run)
    if replays is None:
        return explain_missing(run, Fact.GRAPHS if not outer else Fact.TRACED_PASS)
    steps = None if len(outer) == 1 else find_replay_steps(run, replays)
    if steps is not None and not steps.by_graph:
        return Missing(Fact.NODE_TIMES, NO_REPLAYS)
    excess_by_graph: dict[str, Floats] = {}
    for graph in expand_graphs(run, outer if steps is None else list(steps.by_graph)):
        report = measure_graph_efficiency(graph, choice)
        if isinstance(report, EfficiencyReport) and report.known_ns:
            excess_by_graph[report.items[0].graph or ""] = _sum_excess(graph, report, replays)
    if not excess_by_graph:
        return Missing(Fact.NODE_TIMES, _NO_TIMES)
    if steps is None:
        (excess,) = excess_by_graph.values()
    else:
        excess = np.zeros(steps.steps)
        for graph_id, values in excess_by_graph.items():
            owners = steps.by_graph[graph_id]
            inside = owners >= 0
            np.add.at(excess, owners[inside], values[inside])
    return tuple(np.rint(excess).astype(int).tolist())


def _sum_excess(graph: ExpandedGraph, report: EfficiencyReport, replays: ReplayMatch) -> Floats:
    """Sum the time above the limit over the operators, for each replay of the graph."""
    count = graph.table.replays
    excess = np.zeros(count)
    for limit in report.limits:
        if limit.limit_ns is None:
            continue
        owners = [graph.owners[report.items[position].index] for position in limit.unit.items]
        samples = [replays.get_samples(graph_id, node) for graph_id, node in owners]
        if all(len(durations) == count for durations in samples):
            excess += np.maximum(np.sum(samples, axis=0) - limit.limit_ns, 0.0)
    return excess
