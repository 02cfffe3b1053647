"""The captured graphs of several ranks: whether they are alike, and where collectives stem from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.arrays import Ints, column
from graphviz_dash.analysis.origins.attribution import attribute
from graphviz_dash.analysis.origins.origins import NodeOrigin, Origins
from graphviz_dash.analysis.replays.replays import METHODS, known_of, match_replays
from graphviz_dash.analysis.trace.collectives import message_bytes
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.analysis.trace.signatures import normalised
from graphviz_dash.model.graph import CapturedGraph, GraphNode, KernelParams

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.trace import Trace


@dataclass(frozen=True)
class GraphDifference:
    """The graphs of ``rank`` against those of the first rank: ``text`` says the first difference,
    and is None where kinds, names, launch shapes, sizes and edges of all nodes agree."""

    rank: int
    text: str | None


@dataclass(frozen=True)
class Origin:
    """Where a collective's kernel comes from. ``method`` says how that is known; ``graph`` and
    ``node`` are None where it was launched by a call of its own. ``bytes`` is what the first rank
    gives to it, None where that is not told."""

    method: str
    graph: str | None
    node: int | None
    op: str | None
    module: str | None
    source: str | None
    bytes: int | None = None


def differences(runs: Sequence[Run]) -> tuple[GraphDifference, ...]:
    """Each later rank's graphs against the first rank's; empty where no rank captured any."""
    if not any(run.graphs for run in runs):
        return ()
    first = runs[0].graphs
    return tuple(
        GraphDifference(run.manifest.rank or 0, _difference(first, run.graphs)) for run in runs[1:]
    )


def _difference(first: tuple[CapturedGraph, ...], other: tuple[CapturedGraph, ...]) -> str | None:
    if len(first) != len(other):
        return f"{len(other)} graphs instead of {len(first)}"
    for one, two in zip(first, other, strict=True):
        if len(one.nodes) != len(two.nodes):
            return f"{two.id} has {len(two.nodes):,} nodes instead of {len(one.nodes):,}"
        for mine, theirs in zip(one.nodes, two.nodes, strict=True):
            if _look(mine) != _look(theirs):
                return f"node {theirs.index} of {two.id}: {_told(theirs)} instead of {_told(mine)}"
        if set(one.edges) != set(two.edges):
            return f"the edges of {two.id}"
    return None


def _look(node: GraphNode) -> object:
    """What must agree between ranks; function names without what demanglers write differently."""
    match node.params:
        case KernelParams() as kernel:
            shared = (kernel.dynamic_shared, kernel.static_shared)
            return (node.kind, normalised(kernel.demangled), kernel.grid, kernel.block, shared)
        case params:
            return (node.kind, params, node.bodies)


def _told(node: GraphNode) -> str:
    if isinstance(node.params, KernelParams):
        grid, block = node.params.grid, node.params.block
        return f"{node.label[:60]} with grid {grid} and block {block}"
    return node.label


def origins(run: Run, rows: Ints) -> list[Origin]:
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


def _nodes(run: Run, trace: Trace, rows: Ints) -> dict[int, Origin]:
    matched = match_replays(run.graphs, trace, known_of(run))
    by_graph = {graph.id: attribute(graph, run.capture_trace).origins for graph in run.graphs}
    wanted = np.flatnonzero(np.isin(matched.gpu_row, rows) & (matched.node >= 0))
    found: dict[int, Origin] = {}
    for place in wanted.tolist():
        graph = matched.graphs[int(matched.graph[place])]
        node = int(matched.node[place])
        origin = by_graph[graph][node]
        method = f"{METHODS[int(matched.method[place])]}; {origin.method}"
        row = int(matched.gpu_row[place])
        found[row] = _origin(str(trace.gpu["name"][row]), method, graph, node, origin)
    return found


def _eager(trace: Trace, rows: list[int]) -> dict[int, Origin]:
    launch = link_launches(
        column(trace.gpu, "correlation")[rows], column(trace.runtime, "correlation")
    ).launch
    linked = [row for row, call in zip(rows, launch.tolist(), strict=True) if call >= 0]
    told = Origins(trace, launch[launch >= 0]) if linked else None
    found = {row: Origin("none", None, None, None, None, None) for row in rows}
    for place, row in enumerate(linked):
        if told is not None:
            name = str(trace.gpu["name"][row])
            found[row] = _origin(name, "launch", None, None, told.origin(place, "launch", 1.0))
    return found


def _origin(
    name: str, method: str, graph: str | None, node: int | None, origin: NodeOrigin
) -> Origin:
    size = message_bytes(name, origin.input_dims)
    return Origin(method, graph, node, origin.op, origin.module, origin.source, size)
