"""Captured graphs of several ranks: differences, and origins of collectives."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.attribution.attribution import attribute_graphs
from graphviz_dash.analysis.attribution.origins import NodeOrigin, OriginResolver
from graphviz_dash.analysis.replays.replays import METHODS, get_identities, match_replays
from graphviz_dash.analysis.trace.collectives import compute_message_bytes
from graphviz_dash.analysis.trace.lanes import link_trace_launches
from graphviz_dash.analysis.trace.signatures import normalise_name
from graphviz_dash.model.graph import CapturedGraph, GraphNode, KernelParams
from graphviz_dash.model.run import Run
from graphviz_dash.model.trace import Trace


class GraphAspect(StrEnum):
    """Aspect in which graphs of two ranks differ."""

    GRAPHS = "graphs"
    NODES = "nodes"
    NODE = "node"
    EDGES = "edges"


class FirstDifference(Struct, frozen=True):
    """First difference between the graphs of a rank and those of the first rank."""

    aspect: GraphAspect
    graph: CapturedGraph | None = None
    """None if the number of graphs differs."""
    counts: tuple[int, int] | None = None
    """Graphs or nodes on the first and on this rank, for count aspects."""
    nodes: tuple[GraphNode, GraphNode] | None = None
    """On the first and on this rank, for other aspects."""


class GraphDifference(Struct, frozen=True):
    """Comparison of the graphs of ``rank`` with those of the first rank.

    ``first_difference`` is None if kinds, names, launch shapes, sizes and edges agree.
    """

    rank: int
    first_difference: FirstDifference | None


class CollectiveOrigin(Struct, frozen=True):
    """Origin of a collective's kernel."""

    method: str
    graph: str | None
    """Graph id; None if launched directly."""
    node: int | None
    """Index in the graph; None if launched directly."""
    op: str | None
    """Operator that launched it; None if unknown."""
    module: str | None
    """Path of the launching module; None if unknown."""
    source: str | None
    """``file:line`` of the launch; None if unknown."""
    bytes: int | None = None
    """Sent by the first rank; None if unknown."""


def compare_rank_graphs(runs: Sequence[Run]) -> tuple[GraphDifference, ...]:
    """Compare each later rank's graphs with the first rank's; empty if no rank captured any."""
    if not any(run.graphs for run in runs):
        return ()
    first = runs[0].graphs
    return tuple(
        GraphDifference(run.manifest.rank or 0, _find_difference(first, run.graphs))
        for run in runs[1:]
    )


def _find_difference(
    first: tuple[CapturedGraph, ...], other: tuple[CapturedGraph, ...]
) -> FirstDifference | None:
    if len(first) != len(other):
        return FirstDifference(GraphAspect.GRAPHS, counts=(len(first), len(other)))
    for expected_graph, graph in zip(first, other, strict=True):
        if len(expected_graph.nodes) != len(graph.nodes):
            counts = (len(expected_graph.nodes), len(graph.nodes))
            return FirstDifference(GraphAspect.NODES, graph, counts=counts)
        for before, after in zip(expected_graph.nodes, graph.nodes, strict=True):
            if _get_appearance(before) != _get_appearance(after):
                return FirstDifference(GraphAspect.NODE, graph, nodes=(before, after))
        if set(expected_graph.edges) != set(graph.edges):
            return FirstDifference(GraphAspect.EDGES, graph)
    return None


def _get_appearance(node: GraphNode) -> object:
    """Return the properties that must agree between ranks."""
    match node.params:
        case KernelParams() as kernel:
            shared = (kernel.dynamic_shared, kernel.static_shared)
            return (node.kind, normalise_name(kernel.demangled), kernel.grid, kernel.block, shared)
        case params:
            return (node.kind, params, node.bodies)


def find_collective_origins(run: Run, rows: Ints) -> list[CollectiveOrigin]:
    """Return the origin of each of ``rows`` in the run's replay trace.

    A replayed kernel leads to its node and from there to the launch during capture.
    """
    trace = run.replay_trace
    if trace is None:
        return []
    nodes = _find_node_origins(run, trace, rows) if run.graphs else {}
    eager = _find_eager_origins(trace, [row for row in rows.tolist() if row not in nodes])
    return [nodes.get(row) or eager[row] for row in rows.tolist()]


def _find_node_origins(run: Run, trace: Trace, rows: Ints) -> dict[int, CollectiveOrigin]:
    replay_match = match_replays(run.graphs, trace, get_identities(run))
    by_graph = attribute_graphs(run.graphs, run.capture_traces)
    indices = np.flatnonzero(np.isin(replay_match.gpu_row, rows) & (replay_match.node >= 0))
    by_row: dict[int, CollectiveOrigin] = {}
    for index in indices.tolist():
        graph = replay_match.graphs[int(replay_match.graph[index])]
        node = int(replay_match.node[index])
        origin = by_graph[graph].origins[node]
        method = f"{METHODS[int(replay_match.method[index])]}; {origin.method}"
        row = int(replay_match.gpu_row[index])
        by_row[row] = _build_origin(str(trace.gpu["name"][row]), method, graph, node, origin)
    return by_row


def _find_eager_origins(trace: Trace, rows: list[int]) -> dict[int, CollectiveOrigin]:
    launch = link_trace_launches(trace).launch[rows]
    linked_rows = [row for row, call in zip(rows, launch.tolist(), strict=True) if call >= 0]
    launch_origins = OriginResolver(trace, launch[launch >= 0]) if linked_rows else None
    by_row = {row: CollectiveOrigin("none", None, None, None, None, None) for row in rows}
    for index, row in enumerate(linked_rows):
        if launch_origins is not None:
            name = str(trace.gpu["name"][row])
            origin = launch_origins.get_origin(index, "launch", 1.0)
            by_row[row] = _build_origin(name, "launch", None, None, origin)
    return by_row


def _build_origin(
    name: str, method: str, graph: str | None, node: int | None, origin: NodeOrigin
) -> CollectiveOrigin:
    size = compute_message_bytes(name, origin.input_dims)
    return CollectiveOrigin(method, graph, node, origin.op, origin.module, origin.source, size)
