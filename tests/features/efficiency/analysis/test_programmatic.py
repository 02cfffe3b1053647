"""Programmatic edges: their overlap in replays, and the gaps of other edges."""

from __future__ import annotations

from graphviz_dash.analysis.nodes.measured_graph import (
    MeasuredGraph,
    find_timing_replays,
    measure_graph,
)
from graphviz_dash.features.efficiency.analysis.programmatic import (
    GAP_NS,
    measure_programmatic_edges,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.graph import CapturedGraph
from tests.builders import captured_graph
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
