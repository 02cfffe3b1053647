"""Cached distance of a graph's nodes from the hardware limit."""

from __future__ import annotations

from collections.abc import Mapping

from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs
from graphviz_dash.features.efficiency.analysis.ceilings_choice import choose_ceilings
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    measure_graph_efficiency,
    measure_step_graphs,
)
from graphviz_dash.features.graph.page.state.graphs import get_measured_graph, get_whole_graph
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.state.results import get_comparison, get_node_replays
from graphviz_dash.ui.state.store import STORE, cache_result


@cache_result("efficiency")
def get_efficiency(key: str, run_name: str, graph_id: str) -> EfficiencyReport | Missing:
    """Return times and limits of operator calls, or the reason for none.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    run = STORE.get_run(key, run_name)
    full_graph = get_whole_graph(key, run_name, graph_id)
    gpu = run.manifest.environment.gpu
    return measure_graph_efficiency(
        full_graph,
        choose_ceilings(run),
        None if gpu is None else gpu.multiprocessors,
        get_measured_graph(key, run_name, graph_id),
        _get_pairs(key, run_name),
    )


@cache_result("run efficiency")
def get_run_efficiency(key: str, run_name: str) -> EfficiencyReport | Missing:
    """Return times and limits of the graphs of a run's steps, or the reason for none.

    Raises:
        UnknownKeyError: no such run.
    """
    run, replays = STORE.get_run(key, run_name), get_node_replays(key, run_name)
    return measure_step_graphs(
        run,
        replays,
        lambda graphs: [get_whole_graph(key, run_name, graph) for graph in graphs],
        choose_ceilings(run),
        _get_pairs(key, run_name),
    )


def _get_pairs(key: str, run_name: str) -> WorkPairs | None:
    waterfall = get_comparison(key)[run_name].waterfall
    return None if isinstance(waterfall, Missing) else waterfall.pairs


def get_limit_shares(key: str, run_name: str, graph_id: str) -> Mapping[int, float]:
    """Return the share of the limit of nodes with a known limit, by place.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    report = get_efficiency(key, run_name, graph_id)
    if isinstance(report, Missing):
        return {}
    return {
        position: limit.share
        for position, limit in report.places.items()
        if limit.share is not None
    }
