from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.analysis.nodes.conditional_runs import find_conditional_runs
from graphviz_dash.analysis.nodes.node_table import build_node_table, build_table
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.features.graph.drawing.node_card import Field, NodeCard, build_node_card
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    EventParams,
    GraphNode,
    HostParams,
    KernelParams,
    MemAllocParams,
    MemFreeParams,
    NodeKind,
    Params,
    SemaphoreParams,
)
from graphviz_dash.model.run import Run
from tests.analysis.replays.test_conditionals import GRAPHS, scene_of


def fields(card: NodeCard) -> dict[str, Field]:
    return {field.label: field for _, section in card.sections for field in section}


def recorded(name: str, node: int) -> NodeCard:
    run = load_run(Path("sample_traces") / name / "graph")
    assert run.replay_trace is not None
    matched = match_replays(run.graphs, run.replay_trace)
    return build_node_card(build_table(run, "graph-0"), node, matched.get_samples("graph-0", node))


def test_a_kernel() -> None:
    card = recorded("transformer-train", 2)
    found = fields(card)
    assert card.kind == "Kernel"
    assert found["Operator"].text == "aten::addmm"
    assert found["Operator path"].text == "aten::linear > aten::addmm"
    assert found["Module"].text == "Transformer.layers.0.attention.qkv"
    assert found["Source"].text.startswith("collectors/workloads/transformer.py:")
    assert found["Source"].note == "range"
    assert found["Grid"].text.count(" x ") == 2
    assert found["Attributed by"].note == "confidence 100%"
    assert found["Median"].text.endswith(" µs")
    assert found["Median"].note == "traced pass"
    assert found["After"].text == "1"
    assert found["Before"].text == "3"
    assert sum(card.bins) == int(found["Samples"].text.split()[0])


def test_copies_and_sets() -> None:
    run = load_run(Path("sample_traces/fork-join/graph"))
    kinds = {node.kind.value: node.index for node in run.graphs[0].nodes}
    copy = fields(recorded("fork-join", kinds["Memcpy"]))
    assert copy["Direction"].text.startswith("DtoH")
    assert copy["Bytes"].text == "512 KiB"
    fill = fields(recorded("fork-join", kinds["Memset"]))
    assert fill["Value"].text.startswith("0 in elements of")


def test_unknown_fields_have_a_reason() -> None:
    run = load_run(Path("sample_traces/mlp-train/graph"))
    bare = Run(
        path=run.path,
        manifest=run.manifest,
        clean=run.clean,
        graphs=run.graphs,
        memory=run.memory,
        capture_trace=None,
        replay_trace=None,
    )
    card = build_node_card(build_table(bare, "graph-0"), 0, np.zeros(0, dtype=np.int64))
    found = fields(card)
    assert found["Operator"].text == "–"
    assert found["Operator"].note
    assert found["Duration"].note == "there is no trace of replays"
    assert card.bins == ()


def test_a_node_that_is_not_there() -> None:
    with pytest.raises(IndexError):
        recorded("mlp-train", 10_000)


PARAMETERS = [
    (NodeKind.HOST, HostParams("sem_post", "libc.so.6"), {"Function": "sem_post"}),
    (NodeKind.HOST, HostParams(None, None), {"Function": "–", "Library": "–"}),
    (NodeKind.MEM_ALLOC, MemAllocParams(1 << 20, 0), {"Bytes": "1.00 MiB", "Device": "0"}),
    (NodeKind.MEM_FREE, MemFreeParams(3), {"Allocated by": "node 3"}),
    (NodeKind.MEM_FREE, MemFreeParams(None), {"Allocated by": "–"}),
    (NodeKind.EVENT_WAIT, EventParams(2), {"Event": "2"}),
    (NodeKind.SEMAPHORE_WAIT, SemaphoreParams((0, 1), (5, 0)), {"Semaphores": "0, 1"}),
    (NodeKind.CONDITIONAL, ConditionalParams(ConditionalType.SWITCH, 3), {"Type": "Switch"}),
    (NodeKind.CONDITIONAL, ConditionalParams(None, None), {"Type": "–", "Bodies": "–"}),
    (
        NodeKind.BATCH_MEM_OP,
        BatchMemOpParams(("write value 32",)),
        {"Operations": "write value 32"},
    ),
    (NodeKind.CHILD_GRAPH, None, {"Contains": "–"}),
    (NodeKind.EVENT_RECORD, None, {"Parameters": "–"}),
    (NodeKind.EMPTY, None, {"Purpose": "only joins dependencies"}),
]


@pytest.mark.parametrize(("kind", "params", "shown"), PARAMETERS)
def test_every_kind_tells_its_parameters(
    kind: NodeKind, params: Params | None, shown: dict[str, str]
) -> None:
    graph = CapturedGraph("graph-0", (GraphNode(0, kind, params),), (), "a test")
    table = build_node_table(graph, attribute_graph(graph), None)
    found = fields(build_node_card(table, 0, np.zeros(0, dtype=np.int64)))
    assert {label: found[label].text for label in shown} == shown


def test_a_kernel_tells_its_cluster_and_priority_where_it_has_them() -> None:
    params = KernelParams("k", "k", (8, 1, 1), (32, 1, 1), 0, cluster=(2, 1, 1), priority=-3)
    graph = CapturedGraph("graph-0", (GraphNode(0, NodeKind.KERNEL, params),), (), "a test")
    table = build_node_table(graph, attribute_graph(graph), None)
    found = fields(build_node_card(table, 0, np.zeros(0, dtype=np.int64)))
    assert found["Cluster"].text == "2 x 1 x 1"
    assert found["Priority"].text == "-3"
    assert "Cooperative" not in found
    assert "Waits for earlier" not in found


def test_a_kernel_whose_code_was_read_shows_its_part_of_programmatic_launch() -> None:
    params = KernelParams(
        "k", "k", (8, 1, 1), (32, 1, 1), 0, dependency_wait=True, early_trigger=False
    )
    graph = CapturedGraph("graph-0", (GraphNode(0, NodeKind.KERNEL, params),), (), "a test")
    table = build_node_table(graph, attribute_graph(graph), None)
    found = fields(build_node_card(table, 0, np.zeros(0, dtype=np.int64)))
    assert (found["Waits for earlier"].text, found["Releases later"].text) == ("yes", "no")


def test_a_conditional_node_tells_its_runs() -> None:
    scene = scene_of([["m0", "yes", "shared", "turn", "shared", "m4"], ["m0", "no", "m4"]])
    matched = match_replays(GRAPHS, scene.trace())
    choose, repeat, _ = find_conditional_runs(GRAPHS, GRAPHS[0], matched)
    table = build_node_table(GRAPHS[0], attribute_graph(GRAPHS[0]), matched, GRAPHS)
    cards = [
        fields(build_node_card(table, runs.node, np.zeros(0, dtype=np.int64), runs=runs))
        for runs in (choose, repeat)
    ]
    assert [card["Bodies ran in"].text for card in cards] == [
        "1 and 1 of 2 replays",
        "1 of 2 replays",
    ]
    assert "Iterations" not in cards[0]
    assert (cards[1]["Iterations"].text, cards[1]["Iterations"].note) == (
        "–",
        "the profiler records only the last iteration of a While in each replay",
    )
    # From the end of shared at 145 to the end of the loop at 155; turn and shared take 10 ns.
    assert cards[1]["Maximum iterations"].text == "2"


def test_a_node_in_a_body_says_where_it_is() -> None:
    graph = next(graph for graph in GRAPHS if graph.id == "graph-0.1.0")
    table = build_node_table(graph, attribute_graph(graph), None, GRAPHS)
    card = build_node_card(table, 1, np.zeros(0, dtype=np.int64))
    assert card.where == "node 1 of graph-0.1.0"
    assert fields(card)["Inside"].text == "node 1 of graph-0"
