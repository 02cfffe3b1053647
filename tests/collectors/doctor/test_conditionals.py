from __future__ import annotations

import sys

import msgspec
import pytest

from collectors.doctor.conditionals import TORCH_BODIES, find_body_collectives, has_caller
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.model.graph import CapturedGraph, KernelParams, NodeKind
from tests.samples_once import SAMPLES

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.fixture(scope="module")
def bodies() -> tuple[CapturedGraph, ...]:
    """Graphs of a recording with conditional nodes and their bodies."""
    return read_bundle(SAMPLES / "all-nodes" / "graph").graphs


def rename_kernel(
    graphs: tuple[CapturedGraph, ...], *, in_conditional: bool
) -> tuple[CapturedGraph, ...]:
    """Turn the first kernel of a conditional body, or outside of all, into a collective."""
    by_id = {graph.id: graph for graph in graphs}
    changed = list(graphs)
    for number, graph in enumerate(graphs):
        holder = by_id[graph.parent[0]].nodes[graph.parent[1]] if graph.parent else None
        if (holder is not None and holder.kind is NodeKind.CONDITIONAL) is not in_conditional:
            continue
        for index, node in enumerate(graph.nodes):
            if not isinstance(node.params, KernelParams):
                continue
            params = msgspec.structs.replace(node.params, demangled=NCCL)
            nodes = list(graph.nodes)
            nodes[index] = msgspec.structs.replace(node, params=params)
            changed[number] = msgspec.structs.replace(graph, nodes=tuple(nodes))
            return tuple(changed)
    raise AssertionError("no kernel to rename")


def test_a_collective_in_a_conditional_body(bodies: tuple[CapturedGraph, ...]) -> None:
    first, count, events = find_body_collectives(rename_kernel(bodies, in_conditional=True))
    assert (first.value, count.value, events.value) == (NCCL, 1, 0)


def test_a_collective_outside_of_conditional_bodies(bodies: tuple[CapturedGraph, ...]) -> None:
    assert find_body_collectives(rename_kernel(bodies, in_conditional=False)) == ()


def test_no_sample_breaks_the_rule() -> None:
    runs = [file.parent for file in sorted(SAMPLES.rglob("manifest.json"))]
    graphs = {run: read_bundle(run).graphs for run in runs}
    assert {run for run in runs if find_body_collectives(graphs[run])} == set()
    kinds = {node.kind for items in graphs.values() for graph in items for node in graph.nodes}
    assert NodeKind.CONDITIONAL in kinds
    names = {
        node.params.demangled
        for items in graphs.values()
        for graph in items
        for node in graph.nodes
        if isinstance(node.params, KernelParams)
    }
    assert any("nccl" in name for name in names)


def test_calls_below_torchs_capture_of_a_body() -> None:
    names = {"check": lambda: has_caller(sys._getframe(1), TORCH_BODIES)}
    code = "def body():\n    return check()"
    exec(compile(code, "/site-packages/torch/cudagraph_conditional_nodes.py", "exec"), names)
    assert names["body"]()
    assert not has_caller(sys._getframe(), TORCH_BODIES)
