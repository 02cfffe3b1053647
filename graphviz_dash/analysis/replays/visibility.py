"""Why a node has no times, and what its times leave out: what the profiler cannot see of a graph.

Measured with CUPTI 13.0 under driver 580: of a graph launch it shows kernels, memcpys and memsets,
those in child graphs and in bodies of conditional nodes too, and nothing of the other kinds. Of the
body of a While it shows one turn a launch, the last: with 1, 3 and 6 turns its first kernel began
8, 21 and 40 µs after the work before it ended, 6.4 µs later for each turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphviz_dash.analysis.graph.flatten import SHOWN_KINDS
from graphviz_dash.model.graph import (
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    GraphNode,
    NodeKind,
)

_NEVER: Final = {
    NodeKind.HOST: "not visible: it runs on the CPU, and the profiler shows no host node",
    NodeKind.CHILD_GRAPH: "its time is that of the nodes inside it",
    NodeKind.CONDITIONAL: "not visible: the profiler shows only what runs in its bodies",
    NodeKind.EMPTY: "it does no work",
}
_OTHERS: Final = "not visible: the profiler shows no row for this kind of node"

ONE_TURN: Final = "the last turn of each replay: the profiler shows no other of a While"


def why_no_times(node: GraphNode, around: tuple[ConditionalType | None, ...], replays: int) -> str:
    """Why a node has no times. ``around``: the conditionals that hold its graph, from inside out;
    ``replays``: how often the trace shows its graph launched."""
    if node.kind not in SHOWN_KINDS:
        return _NEVER.get(node.kind, _OTHERS)
    if not replays:
        return "the trace shows no replay of its graph"
    body = "; it runs only when its condition says so" if around else ""
    return f"no row of the {replays:,} replays was found to be its{body}"


def what_is_left_out(around: tuple[ConditionalType | None, ...]) -> str | None:
    """What the times of a node leave out, if anything."""
    return ONE_TURN if ConditionalType.WHILE in around else None


def conditionals_around(
    graph: CapturedGraph, by_id: Mapping[str, CapturedGraph]
) -> tuple[ConditionalType | None, ...]:
    """The types of the conditional nodes that a graph lies in, from inside out; None for one whose
    type was not read."""
    types: list[ConditionalType | None] = []
    while graph.parent is not None and graph.parent[0] in by_id:
        holder, index = by_id[graph.parent[0]], graph.parent[1]
        node = holder.nodes[index]
        if node.kind is NodeKind.CONDITIONAL:
            params = node.params
            types.append(params.type if isinstance(params, ConditionalParams) else None)
        graph = holder
    return tuple(types)
