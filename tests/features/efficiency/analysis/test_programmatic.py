from __future__ import annotations

from itertools import pairwise

from msgspec.structs import replace

from graphviz_dash.analysis.nodes.measured_graph import (
    MeasuredGraph,
    find_timing_replays,
    measure_graph,
)
from graphviz_dash.features.efficiency.analysis.programmatic import (
    GAP_NS,
    ProgrammaticEdges,
    measure_programmatic_edges,
)
from graphviz_dash.features.efficiency.narrative import describe_chains, describe_device_half
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.graph import CapturedGraph, EdgeType, KernelParams
from graphviz_dash.units import format_ns
from tests.builders import captured_graph, fork_join
from tests.samples import SAMPLES


def test_edges_without_overlap() -> None:
    run = load_run(SAMPLES / "decode" / "graph")
    (graph,) = run.graphs
    timed_graph = measure_graph(graph, run.graphs, find_timing_replays(run))
    assert isinstance(timed_graph, MeasuredGraph)
    audit = measure_programmatic_edges(graph, timed_graph)
    assert audit is not None
    # Reductions of split products start 193 to 320 ns after the products end.
    assert (audit.edges, audit.overlaps) == (12, 0)
    assert audit.gap_ns == 256
    assert audit.hideable_ns == audit.full_edges * GAP_NS


def test_a_graph_without_kernels() -> None:
    run = load_run(SAMPLES / "decode" / "graph")
    timed_graph = measure_graph(run.graphs[0], run.graphs, find_timing_replays(run))
    assert isinstance(timed_graph, MeasuredGraph)
    empty = CapturedGraph("graph-0", (), (), "driver")
    assert measure_programmatic_edges(empty, timed_graph) is None
    line = measure_programmatic_edges(captured_graph(), timed_graph)
    assert line is not None
    assert (line.edges, line.gap_ns) == (0, None)


def test_chains_are_what_one_kernel_after_the_other_forms() -> None:
    run = load_run(SAMPLES / "decode" / "graph")
    timed_graph = measure_graph(run.graphs[0], run.graphs, find_timing_replays(run))
    assert isinstance(timed_graph, MeasuredGraph)
    # A fork, two branches of three kernels, and a join.
    audit = measure_programmatic_edges(captured_graph(fork_join(2, 3)), timed_graph)
    assert audit is not None
    assert [chain.nodes for chain in audit.chains] == [(1, 2, 3), (4, 5, 6)]
    assert [chain.hideable_ns for chain in audit.chains] == [2 * GAP_NS] * 2
    assert describe_chains(audit) == (
        f"Longest chains: nodes 1 to 3 (3 kernels, up to {format_ns(2 * GAP_NS)}); "
        f"nodes 4 to 6 (3 kernels, up to {format_ns(2 * GAP_NS)})."
    )


def test_a_programmatic_edge_ends_a_chain() -> None:
    run = load_run(SAMPLES / "decode" / "graph")
    timed_graph = measure_graph(run.graphs[0], run.graphs, find_timing_replays(run))
    assert isinstance(timed_graph, MeasuredGraph)
    audit = measure_programmatic_edges(run.graphs[0], timed_graph)
    assert audit is not None
    edges = {(edge.source, edge.target): edge.type for edge in run.graphs[0].edges}
    for chain in audit.chains:
        assert all(edges[pair] is EdgeType.FULL for pair in pairwise(chain.nodes))
    assert sum(len(chain.nodes) - 1 for chain in audit.chains) <= audit.full_edges
    assert len(audit.chains) > 1


def test_code_of_kernels_shows_the_missing_device_half() -> None:
    run = load_run(SAMPLES / "decode" / "graph")
    (graph,) = run.graphs
    timed_graph = measure_graph(graph, run.graphs, find_timing_replays(run))
    assert isinstance(timed_graph, MeasuredGraph)
    audit = measure_programmatic_edges(graph, timed_graph)
    assert audit is not None
    # The sample was recorded without the code of kernels.
    assert audit.unread == audit.edges
    assert "unknown" in describe_device_half(audit)
    edges = [edge for edge in graph.edges if edge.type is EdgeType.PROGRAMMATIC]

    def measure(controls: dict[int, tuple[bool | None, bool | None]]) -> ProgrammaticEdges:
        """Measure with ``(early_trigger, dependency_wait)`` by node."""
        nodes = list(graph.nodes)
        for edge in edges:
            for index in (edge.source, edge.target):
                params = nodes[index].params
                assert isinstance(params, KernelParams)
                trigger, wait = controls.get(index, (True, True))
                params = replace(params, early_trigger=trigger, dependency_wait=wait)
                nodes[index] = replace(nodes[index], params=params)
        audit = measure_programmatic_edges(replace(graph, nodes=tuple(nodes)), timed_graph)
        assert audit is not None
        return audit

    complete = measure({})
    assert (complete.without_trigger, complete.without_wait, complete.unread) == ((), (), 0)
    assert describe_device_half(complete) == "All their kernels wait and trigger."
    first, second, third = edges[:3]
    audit = measure(
        {first.source: (False, True), second.target: (True, False), third.target: (None, None)}
    )
    assert audit.without_trigger == (first,)
    assert audit.without_wait == (second,)
    assert audit.unread == 1
    text = describe_device_half(audit)
    assert text.startswith("1 first kernel without griddepcontrol.launch_dependents")
    assert f"(node {second.target})" in text
