from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from click.testing import CliRunner

from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    EdgeType,
    EventParams,
    GraphNode,
    HostParams,
    KernelParams,
    MemAllocParams,
    MemFreeParams,
    NodeKind,
    SemaphoreParams,
)

TRACED = 8
SEMAPHORES = "nodes of external semaphores"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> BundleContents:
    from collectors.collection.cli import collect

    output = tmp_path_factory.mktemp("all-nodes") / "all-nodes"
    result = CliRunner().invoke(
        collect,
        [
            "--workload=all-nodes",
            f"--output={output}",
            "--iterations=12",
            "--processes=1",
            f"--traced-iterations={TRACED}",
        ],
    )
    assert result.exit_code == 0, result.output
    assert read_bundle(output / "eager").manifest.status == "complete"
    return read_bundle(output / "graph")


@pytest.fixture(scope="module")
def graphs(run: BundleContents) -> dict[str, CapturedGraph]:
    return {graph.id: graph for graph in run.graphs}


def only(graph: CapturedGraph, kind: NodeKind) -> GraphNode:
    (node,) = [node for node in graph.nodes if node.kind is kind]
    return node


@pytest.mark.timeout(300)
def test_every_kind_is_there_or_said_to_be_absent(
    run: BundleContents, graphs: dict[str, CapturedGraph]
) -> None:
    kinds = {node.kind for graph in graphs.values() for node in graph.nodes}
    told = {fact.fact: fact.reason for fact in run.manifest.absent}
    if SEMAPHORES in told:
        assert told[SEMAPHORES].startswith("untried: ")
        kinds |= {NodeKind.SEMAPHORE_SIGNAL, NodeKind.SEMAPHORE_WAIT}
    assert kinds == set(NodeKind)
    # A graph with memory nodes can be instantiated once, so its upload cannot be timed apart.
    assert "upload_ns of graph-0" in told


@pytest.mark.timeout(300)
def test_parameters_are_what_was_built(graphs: dict[str, CapturedGraph]) -> None:
    from collectors.workloads.all_nodes import SIZE

    root = graphs["graph-0"]
    allocation, free = only(root, NodeKind.MEM_ALLOC), only(root, NodeKind.MEM_FREE)
    assert allocation.params == MemAllocParams(bytes=SIZE, device=0)
    assert free.params == MemFreeParams(allocated_by=allocation.index)
    assert only(root, NodeKind.HOST).params == HostParams("sem_post", "libc.so.6")
    record, wait = only(root, NodeKind.EVENT_RECORD), only(root, NodeKind.EVENT_WAIT)
    assert record.params == wait.params == EventParams(event=0)
    operations = only(root, NodeKind.BATCH_MEM_OP).params
    assert operations == BatchMemOpParams(("write value 32", "wait value 32"))
    signal = [node for node in root.nodes if node.kind is NodeKind.SEMAPHORE_SIGNAL]
    for node in signal:
        other = only(root, NodeKind.SEMAPHORE_WAIT)
        assert node.params == other.params == SemaphoreParams(semaphores=(0,), values=(0,))
    for graph in graphs.values():
        for node in graph.nodes:
            if node.kind is NodeKind.KERNEL:
                assert isinstance(node.params, KernelParams)
                assert node.params.cooperative is False
                assert node.params.priority == 0


@pytest.mark.timeout(300)
def test_the_dependent_launch_keeps_its_edge(graphs: dict[str, CapturedGraph]) -> None:
    root = graphs["graph-0"]
    (edge,) = [edge for edge in root.edges if edge.type is EdgeType.PROGRAMMATIC]
    assert (edge.from_port, edge.to_port) == (1, 0)
    labels = [root.nodes[end].label for end in (edge.source, edge.target)]
    assert labels == ["scale", "shift"]


@pytest.mark.timeout(300)
def test_bodies_are_read_down_to_the_last(graphs: dict[str, CapturedGraph]) -> None:
    root = graphs["graph-0"]
    found = {}
    for node in root.nodes:
        if isinstance(node.params, ConditionalParams):
            assert node.params.type is not None
            assert node.params.size == len(node.bodies)
            found[node.params.type] = [
                [inner.label for inner in graphs[body].nodes] for body in node.bodies
            ]
    assert found == {
        ConditionalType.IF: [["lift"], ["lower"]],
        ConditionalType.WHILE: [["relax", "again"]],
        ConditionalType.SWITCH: [["square"], ["Memset", "smooth"], ["ChildGraph"]],
    }
    child = graphs[only(root, NodeKind.CHILD_GRAPH).bodies[0]]
    assert [node.label for node in child.nodes] == ["Memcpy DtoD", "smooth"]
    (nested,) = [graph for graph in graphs.values() if graph.nodes[0].label == "reflect"]
    assert nested.parent is not None
    assert graphs[nested.parent[0]].parent is not None
    for graph in graphs.values():
        if len(graph.nodes) == 2:
            assert [(edge.source, edge.target) for edge in graph.edges] == [(0, 1)]


def test_the_graph_computes_what_the_streams_compute() -> None:
    import torch

    from collectors.workloads.all_nodes import all_nodes

    step = all_nodes()
    step.restart()
    expected = []
    for _ in range(6):
        step()
        torch.cuda.synchronize()
        expected.append(step.result.clone())
    assert step.arrivals == 6
    assert all(not torch.equal(a, b) for a, b in pairwise(expected))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    step.restart()
    for number in range(6):
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(step.result, expected[number])
    assert step.arrivals == 12


@pytest.mark.timeout(300)
def test_the_profiler_shows_each_body_at_most_once(run: BundleContents) -> None:
    from tests.gpu.test_collect import events

    trace = events(run.replay_trace)
    launches = [
        event["args"]["correlation"] for event in trace if event.get("name") == "cudaGraphLaunch"
    ]
    shown = Counter(
        (event["args"]["correlation"], event["name"])
        for event in trace
        if event.get("cat") == "kernel" and event["args"]["correlation"] in launches
    )
    per_name: dict[str, list[int]] = {}
    for (_, name), count in shown.items():
        per_name.setdefault(name, []).append(count)
    # Three turns of the While, of which one is shown.
    assert per_name["relax"] == per_name["again"] == [1] * len(launches)
    # The If takes its bodies in turn, the Switch its cases and none of them.
    assert abs(len(per_name["lift"]) - len(per_name["lower"])) <= 1
    assert len(per_name["lift"]) + len(per_name["lower"]) == len(launches)
    for case in ("square", "reflect"):
        assert TRACED // 4 <= len(per_name[case]) <= len(launches) // 4 + 1


def test_a_host_function_without_a_symbol_is_none() -> None:
    import ctypes

    from collectors.driver.node_params import find_host_function

    made = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    address = ctypes.cast(made, ctypes.c_void_p).value
    assert address
    assert find_host_function(address).function is None


def test_events_pair_across_graphs() -> None:
    from cuda.bindings import runtime

    from collectors.driver.topology import call, read_graph

    graph, child = call(runtime.cudaGraphCreate, 0), call(runtime.cudaGraphCreate, 0)
    first, second = call(runtime.cudaEventCreate), call(runtime.cudaEventCreate)
    call(runtime.cudaGraphAddEventWaitNode, child, None, 0, second)
    call(runtime.cudaGraphAddEventWaitNode, child, None, 0, first)
    record = call(runtime.cudaGraphAddEventRecordNode, graph, None, 0, first)
    later = call(runtime.cudaGraphAddEventRecordNode, graph, [record], 1, second)
    call(runtime.cudaGraphAddChildGraphNode, graph, [later], 1, child)
    whole, inner = read_graph(int(graph), "g")
    assert [node.params for node in whole.nodes] == [EventParams(0), EventParams(1), None]
    assert [node.params for node in inner.nodes] == [EventParams(1), EventParams(0)]
    for handle in (graph, child):
        call(runtime.cudaGraphDestroy, handle)


def test_an_empty_body_is_a_graph_without_nodes() -> None:
    import torch
    from cuda.bindings import driver

    from collectors.driver.topology import read_graph
    from collectors.workloads.explicit import GraphBuilder, call

    torch.cuda.synchronize()
    builder = GraphBuilder(call(driver.cuGraphCreate, 0))
    _, (taken, _) = builder.add_conditional("IF", builder.create_condition(), 2, [])
    taken.add_empty([])
    whole, first, second = read_graph(int(builder.graph), "g")
    assert whole.nodes[0].params == ConditionalParams(ConditionalType.IF, 2)
    assert [node.kind for node in first.nodes] == [NodeKind.EMPTY]
    assert second.nodes == ()
    call(driver.cuGraphDestroy, builder.graph)
