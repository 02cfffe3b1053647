"""What analysis says of the graphs of an opened experiment on several streams, built once."""

from __future__ import annotations

from collections.abc import Mapping

from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.features.graph.page.state.graphs import concurrency, measured, nodes, whole
from graphviz_dash.features.prediction.analysis.data_graph import DataGraph, data_graph
from graphviz_dash.features.prediction.analysis.needs import NodeNeed, node_needs
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    ParallelPrediction,
    predict_parallel,
    step_operators,
)
from graphviz_dash.features.prediction.analysis.work import issued_streams
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.ui.state.store import STORE


def parallel(key: str, run_name: str, graph_id: str) -> ParallelPrediction | Missing:
    """What a graph would take on several streams, or why that is not known."""
    outcome = concurrency(key, run_name, graph_id)
    if isinstance(outcome, Missing):
        return outcome
    run = STORE.run(key, run_name)
    tables = {graph.id: nodes(key, run_name, graph.id) for graph in run.graphs}
    return STORE.derived(
        key,
        ("parallel", run_name, graph_id),
        lambda experiment: predict_parallel(
            run, outcome, tables, step_operators(run, experiment.runs)
        ),
    )


def planned_streams(key: str, run_name: str, graph_id: str) -> Mapping[int, int]:
    """The stream that each node of a graph was issued on by a plan, else the one of the predicted
    plan, by place; empty where there is neither."""
    plan = STORE.run(key, run_name).parallel
    if plan is not None and len(issued := issued_streams(plan)) == len(
        nodes(key, run_name, graph_id).rows
    ):
        return dict(enumerate(issued))
    prediction = parallel(key, run_name, graph_id)
    if isinstance(prediction, Missing):
        return {}
    number_of = {owner: number for number, owner in enumerate(whole(key, run_name, graph_id).owner)}
    named = measured(key, run_name, graph_id)
    assert isinstance(named, MeasuredGraph)
    return {
        number_of[named.nodes[group[0]]]: stream
        for group, stream in zip(prediction.work.nodes, prediction.plan.stream, strict=True)
    }


def graph_by_data(key: str, run_name: str, graph_id: str) -> DataGraph | Missing:
    """A graph with the dependencies that its data needs, or why these are not known."""
    prediction, times = parallel(key, run_name, graph_id), measured(key, run_name, graph_id)
    if isinstance(prediction, Missing):
        return prediction
    assert isinstance(times, MeasuredGraph)
    shown = whole(key, run_name, graph_id)
    data = STORE.derived(
        key,
        ("by data", run_name, graph_id),
        lambda _: data_graph(shown, times, prediction.work),
    )
    holds = "what graphs inside it need is not known"
    return data or Missing(Fact.PREDICTION, holds)


def needs_of_node(
    key: str, run_name: str, graph_id: str, node: tuple[str, int]
) -> tuple[NodeNeed, ...]:
    """What the data of a node needs, by the id of its graph and its index there; ``graph_id`` is
    the graph that is launched. Empty where that is not known."""
    prediction, times = parallel(key, run_name, graph_id), measured(key, run_name, graph_id)
    if isinstance(prediction, Missing) or isinstance(times, Missing) or node not in times.index_of:
        return ()
    run = STORE.run(key, run_name)
    tables = {graph.id: nodes(key, run_name, graph.id) for graph in run.graphs}
    plan = tried_plan(key, run_name)
    needs: Mapping[int, tuple[NodeNeed, ...]] = STORE.derived(
        key,
        ("needs", run_name, graph_id),
        lambda _: node_needs(prediction.work, times, tables, plan),
    )
    return needs.get(times.index_of[node], ())


def own_plan(key: str, run_name: str) -> ParallelPlan | None:
    """The plan that a run was captured by; None where it was captured on one stream."""
    return STORE.run(key, run_name).parallel


def tried_plan(key: str, run_name: str) -> ParallelPlan | None:
    """The plan of a run, or of one of its rank that captured the same step on several streams;
    None where none did."""
    run = STORE.run(key, run_name)
    ours = STORE.derived(
        key,
        ("plans", run.manifest.rank),
        lambda experiment: [
            other.parallel for other in experiment.runs if other.manifest.rank == run.manifest.rank
        ],
    )
    return next((plan for plan in (run.parallel, *ours) if plan is not None), None)
