from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median

import pytest

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.graph.device_launch import DeviceLaunchVerdict
from graphviz_dash.features.graph.diff.graph_pair import check_device_launch, compare_graphs
from graphviz_dash.features.graph.diff_narrative import (
    describe_device_launch,
    describe_update_prediction,
    describe_update_result,
    format_device_launch_result,
    summarize_graph_diff,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.run import Run

SAMPLES = Path("sample_traces")
ASKED = (
    "graph-update/graph",
    "superset/graph",
    "creation-order/longest-copy-first",
    "creation-order/shortest-copy-first",
)


@cache
def _run(name: str) -> Run:
    return load_run(SAMPLES / name)


def test_every_recorded_update_was_predicted() -> None:
    run = _run("graph-update/graph")
    assert run.updates is not None
    assert len(run.updates.pairs) == 9 * 8
    results = set()
    for one in run.updates.pairs:
        pair = compare_graphs(run, one.source_graph, run, one.target_graph)
        assert pair.recorded_update is one
        assert pair.is_prediction_correct is True, (one, pair.prediction)
        results.add(one.result.result)
    assert results == {"SUCCESS", "ERROR_TOPOLOGY_CHANGED", "ERROR_PARAMETERS_CHANGED"}


def test_an_update_is_much_cheaper_than_instantiating_again() -> None:
    run = _run("graph-update/graph")
    assert run.updates is not None
    for one in run.updates.pairs:
        assert median(one.update_ns) * 10 < median(one.instantiate_ns)


def test_variants_differ_as_their_names_say() -> None:
    run = _run("graph-update/graph")
    changes = {}
    for graph in run.graphs[1:]:
        diff = compare_graphs(run, "graph-0", run, graph.id).diff
        changes[graph.name] = {
            change: count
            for change, count in diff.count_nodes().items()
            if count and change is not Change.SAME
        }
    assert changes["other buffers"] == {}
    assert changes["one operator more"] == {Change.ADDED: 1}
    assert changes["norm on the other branch"] == {Change.MOVED: 1}
    assert set(changes["another activation"]) == set(changes["batch 8"]) == {Change.CHANGED}
    assert changes["input on the device"] == {Change.CHANGED: 1}


@pytest.mark.parametrize("name", ASKED)
def test_the_driver_agrees_on_launches_from_the_device(name: str) -> None:
    run = _run(name)
    for graph in run.graphs:
        found = check_device_launch(run, graph.id)
        assert graph.device_launch is not None
        assert found.verdict is not DeviceLaunchVerdict.UNKNOWN
        accepted = graph.device_launch.result == "SUCCESS"
        assert accepted is (found.verdict is DeviceLaunchVerdict.YES)
        if not accepted:
            said = graph.device_launch
            assert (said.graph, said.node) in {(one.graph, one.node) for one in found.violations}


def test_nodes_that_are_switched_off_have_no_time() -> None:
    (graph,) = _run("superset/graph").graphs
    off = [node.index for node in graph.nodes if node.enabled is False]
    assert off == [6, 7, 8]
    assert all(node.enabled for node in graph.nodes if node.index not in off)


def test_the_outcome_in_words() -> None:
    run = _run("graph-update/graph")
    accepted = compare_graphs(run, "graph-0", run, "graph-1")
    assert summarize_graph_diff(accepted.diff) == "The two graphs are identical."
    orders = [_run(f"creation-order/{which}-copy-first") for which in ("longest", "shortest")]
    other_order = compare_graphs(orders[0], "graph-0", orders[1], "graph-0").diff
    assert (
        summarize_graph_diff(other_order)
        == "The two graphs are identical but were created in a different order."
    )
    assert describe_update_prediction(accepted.prediction) == "accepted"
    refused = compare_graphs(run, "graph-0", run, "graph-5")
    assert summarize_graph_diff(refused.diff) == "1 node added; 1 edge added."
    assert describe_update_prediction(refused.prediction) == (
        "refused, ERROR_TOPOLOGY_CHANGED: 38 nodes instead of 37"
    )
    assert refused.recorded_update is not None
    assert describe_update_result(refused.recorded_update).startswith(
        "refused, ERROR_TOPOLOGY_CHANGED; the call"
    )
    other = _run("creation-order/longest-copy-first")
    assert describe_device_launch(check_device_launch(other, "graph-0")).startswith(
        "no, node 8 of graph-0: a node of kind Empty"
    )
    said = other.graphs[0].device_launch
    assert said is not None
    assert (
        format_device_launch_result(said) == "no, NODE_OPERATION_NOT_SUPPORTED at node 8 of graph-0"
    )
