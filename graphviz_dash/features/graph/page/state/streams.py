"""Cached predictions for graphs on several streams."""

from __future__ import annotations

from collections.abc import Mapping

from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.features.graph.page.state.graphs import (
    get_concurrency,
    get_measured_graph,
    get_nodes,
    get_whole_graph,
)
from graphviz_dash.features.prediction.analysis.data_graph import DataGraph, build_data_graph
from graphviz_dash.features.prediction.analysis.needs import NodeNeed, find_node_needs
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    ParallelPrediction,
    find_step_operators,
    predict_parallel,
)
from graphviz_dash.features.prediction.analysis.work import get_issued_streams
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.ui.state.store import STORE, cache_result


@cache_result("parallel")
def get_parallel_prediction(key: str, run_name: str, graph_id: str) -> ParallelPrediction | Missing:
    """Return the prediction, or the reason it is unavailable."""
    outcome = get_concurrency(key, run_name, graph_id)
    if isinstance(outcome, Missing):
        return outcome
    run = STORE.get_run(key, run_name)
    tables = {graph.id: get_nodes(key, run_name, graph.id) for graph in run.graphs}
    operators = find_step_operators(run, STORE.load_experiment_of_key(key).runs)
    return predict_parallel(run, outcome, tables, operators)


def get_planned_streams(key: str, run_name: str, graph_id: str) -> Mapping[int, int]:
    """Return the stream of each node by row, from the executed plan or else the predicted one.

    Empty if there is no plan.
    """
    plan = STORE.get_run(key, run_name).parallel
    if plan is not None and len(issued := get_issued_streams(plan)) == len(
        get_nodes(key, run_name, graph_id).rows
    ):
        return dict(enumerate(issued))
    prediction = get_parallel_prediction(key, run_name, graph_id)
    if isinstance(prediction, Missing):
        return {}
    number_of = {
        owner: number
        for number, owner in enumerate(get_whole_graph(key, run_name, graph_id).owners)
    }
    measured_graph = get_measured_graph(key, run_name, graph_id)
    assert isinstance(measured_graph, MeasuredGraph)
    return {
        number_of[measured_graph.nodes[group[0]]]: stream
        for group, stream in zip(prediction.work.nodes, prediction.plan.stream, strict=True)
    }


@cache_result("by data")
def get_data_graph(key: str, run_name: str, graph_id: str) -> DataGraph | Missing:
    """Return a graph by data dependencies, or the reason they are unknown."""
    prediction, times = (
        get_parallel_prediction(key, run_name, graph_id),
        get_measured_graph(key, run_name, graph_id),
    )
    if isinstance(prediction, Missing):
        return prediction
    assert isinstance(times, MeasuredGraph)
    graph = get_whole_graph(key, run_name, graph_id)
    data = build_data_graph(graph, times, prediction.work)
    reason = "dependencies of nested graphs are unknown"
    return data or Missing(Fact.PREDICTION, reason)


def get_node_needs(
    key: str, run_name: str, graph_id: str, node: tuple[str, int]
) -> tuple[NodeNeed, ...]:
    """Return the data dependencies of a node of the launched graph ``graph_id``; empty if
    unknown."""
    prediction, times = (
        get_parallel_prediction(key, run_name, graph_id),
        get_measured_graph(key, run_name, graph_id),
    )
    if isinstance(prediction, Missing) or isinstance(times, Missing) or node not in times.index_of:
        return ()
    run = STORE.get_run(key, run_name)
    tables = {graph.id: get_nodes(key, run_name, graph.id) for graph in run.graphs}
    plan = find_tried_plan(key, run_name)
    needs: Mapping[int, tuple[NodeNeed, ...]] = STORE.derive(
        key,
        ("needs", run_name, graph_id),
        lambda _: find_node_needs(prediction.work, times, tables, plan),
    )
    return needs.get(times.index_of[node], ())


def find_tried_plan(key: str, run_name: str) -> ParallelPlan | None:
    """Return a plan of the run, or of a run of its rank that captured the same step; else None."""
    run = STORE.get_run(key, run_name)
    plan_result = STORE.derive(
        key,
        ("plans", run.manifest.rank),
        lambda experiment: [
            other.parallel for other in experiment.runs if other.manifest.rank == run.manifest.rank
        ],
    )
    return next((plan for plan in (run.parallel, *plan_result) if plan is not None), None)
