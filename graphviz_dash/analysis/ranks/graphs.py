"""The captured graphs of several ranks: whether they are alike, and where collectives stem from."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, column
from graphviz_dash.analysis.attribution.attribution import attributions
from graphviz_dash.analysis.attribution.origins import NodeOrigin, Origins
from graphviz_dash.analysis.replays.replays import METHODS, identities_of, match_replays
from graphviz_dash.analysis.trace.collectives import message_bytes
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.analysis.trace.signatures import normalised
from graphviz_dash.model.graph import CapturedGraph, GraphNode, KernelParams

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.trace import Trace


class GraphAspect(StrEnum):
    """What graphs of two ranks can differ in."""

    GRAPHS = "graphs"
    NODES = "nodes"
    NODE = "node"
    EDGES = "edges"


class FirstDifference(Struct, frozen=True):
    """The first thing in which the graphs of a rank differ from those of the first rank."""

    aspect: GraphAspect
    """The number of graphs, the number of a graph's nodes, one node, or a graph's edges."""
    graph: CapturedGraph | None = None
    """The rank's graph; None where the number of graphs differs."""
    counts: tuple[int, int] | None = None
    """Number of graphs or nodes on the first rank and on this one; None for the other aspects."""
    nodes: tuple[GraphNode, GraphNode] | None = None
    """The node on the first rank and on this one; None for the other aspects."""


class GraphDifference(Struct, frozen=True):
    """The graphs of ``rank`` against those of the first rank: ``first`` is None where kinds, names,
    launch shapes, sizes and edges of all nodes agree."""

    rank: int
    first: FirstDifference | None


class CollectiveOrigin(Struct, frozen=True):
    """Where a collective's kernel comes from."""

    method: str
    """How that is known."""
    graph: str | None
    """Id of the graph that holds it; None where it was launched by a call of its own."""
    node: int | None
    """Index of its node there; None where it was launched by a call of its own."""
    op: str | None
    """The operator that launched it; None where the trace does not tell."""
    module: str | None
    """Path of the module that launched it; None where the trace does not tell."""
    source: str | None
    """``file:line`` of the launch; None where the trace does not tell."""
    bytes: int | None = None
    """What the first rank gives to it, in bytes; None where that is not told."""


def differences(runs: Sequence[Run]) -> tuple[GraphDifference, ...]:
    """Each later rank's graphs against the first rank's; empty where no rank captured any."""
    if not any(run.graphs for run in runs):
        return ()
    first = runs[0].graphs
    return tuple(
        GraphDifference(run.manifest.rank or 0, _difference(first, run.graphs)) for run in runs[1:]
    )


def _difference(
    first: tuple[CapturedGraph, ...], other: tuple[CapturedGraph, ...]
) -> FirstDifference | None:
    if len(first) != len(other):
        return FirstDifference(GraphAspect.GRAPHS, counts=(len(first), len(other)))
    for expected, graph in zip(first, other, strict=True):
        if len(expected.nodes) != len(graph.nodes):
            counts = (len(expected.nodes), len(graph.nodes))
            return FirstDifference(GraphAspect.NODES, graph, counts=counts)
        for before, after in zip(expected.nodes, graph.nodes, strict=True):
            if _look(before) != _look(after):
                return FirstDifference(GraphAspect.NODE, graph, nodes=(before, after))
        if set(expected.edges) != set(graph.edges):
            return FirstDifference(GraphAspect.EDGES, graph)
    return None


def _look(node: GraphNode) -> object:
    """What must agree between ranks; function names without what demanglers write differently."""
    match node.params:
        case KernelParams() as kernel:
            shared = (kernel.dynamic_shared, kernel.static_shared)
            return (node.kind, normalised(kernel.demangled), kernel.grid, kernel.block, shared)
        case params:
            return (node.kind, params, node.bodies)


def origins(run: Run, rows: Ints) -> list[CollectiveOrigin]:
    """Where each of ``rows`` of the run's replay trace comes from, in their order.

    A replayed kernel leads to its node and that to the launch of the capture; an eager one to its
    own launch.
    """
    trace = run.replay_trace
    if trace is None:
        return []
    nodes = _nodes(run, trace, rows) if run.graphs else {}
    eager = _eager(trace, [row for row in rows.tolist() if row not in nodes])
    return [nodes.get(row) or eager[row] for row in rows.tolist()]


def _nodes(run: Run, trace: Trace, rows: Ints) -> dict[int, CollectiveOrigin]:
    matched = match_replays(run.graphs, trace, identities_of(run))
    by_graph = attributions(run.graphs, run.captures)
    wanted = np.flatnonzero(np.isin(matched.gpu_row, rows) & (matched.node >= 0))
    by_row: dict[int, CollectiveOrigin] = {}
    for index in wanted.tolist():
        graph = matched.graphs[int(matched.graph[index])]
        node = int(matched.node[index])
        origin = by_graph[graph].origins[node]
        method = f"{METHODS[int(matched.method[index])]}; {origin.method}"
        row = int(matched.gpu_row[index])
        by_row[row] = _origin(str(trace.gpu["name"][row]), method, graph, node, origin)
    return by_row


def _eager(trace: Trace, rows: list[int]) -> dict[int, CollectiveOrigin]:
    launch = link_launches(
        column(trace.gpu, "correlation")[rows], column(trace.runtime, "correlation")
    ).launch
    linked = [row for row, call in zip(rows, launch.tolist(), strict=True) if call >= 0]
    launched_by = Origins(trace, launch[launch >= 0]) if linked else None
    by_row = {row: CollectiveOrigin("none", None, None, None, None, None) for row in rows}
    for index, row in enumerate(linked):
        if launched_by is not None:
            name = str(trace.gpu["name"][row])
            origin = launched_by.origin(index, "launch", 1.0)
            by_row[row] = _origin(name, "launch", None, None, origin)
    return by_row


def _origin(
    name: str, method: str, graph: str | None, node: int | None, origin: NodeOrigin
) -> CollectiveOrigin:
    size = message_bytes(name, origin.input_dims)
    return CollectiveOrigin(method, graph, node, origin.op, origin.module, origin.source, size)
