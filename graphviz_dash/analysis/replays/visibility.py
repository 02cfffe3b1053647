"""Profiler limitations for graph nodes: missing and incomplete times.

Measured with CUPTI 13.0 on driver 580: for a graph launch, it shows kernels, memcpys and memsets,
including those in child graphs and in bodies of conditional nodes, and no other node kinds. For a
While body, it shows only the last iteration per launch: with 1, 3 and 6 iterations, its first
kernel started 8, 21 and 40 µs after the end of the preceding work, 6.4 µs later per
iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphviz_dash.analysis.graph.flatten import VISIBLE_KINDS
from graphviz_dash.analysis.graph.nesting import iter_enclosing_nodes
from graphviz_dash.model.graph import (
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    GraphNode,
    NodeKind,
)

_INVISIBLE_REASONS: Final = {
    NodeKind.HOST: "not visible: it runs on the CPU, and the profiler does not show host nodes",
    NodeKind.CHILD_GRAPH: "its time is the time of the nodes inside it",
    NodeKind.CONDITIONAL: "not visible: the profiler shows only the work in its bodies",
    NodeKind.EMPTY: "it does no work",
}
_DEFAULT_INVISIBLE_REASON: Final = "not visible: the profiler shows no row for this kind of node"

LAST_ITERATION_ONLY: Final = (
    "only the last iteration of each replay: the profiler shows no others of a While"
)


def explain_missing_times(
    node: GraphNode, conditionals: tuple[ConditionalType | None, ...], replays: int
) -> str:
    """Explain why a node has no times.

    ``conditionals`` lists those around its graph, innermost first; ``replays`` counts the launches
    of its graph in the trace.
    """
    if node.kind not in VISIBLE_KINDS:
        return _INVISIBLE_REASONS.get(node.kind, _DEFAULT_INVISIBLE_REASON)
    if not replays:
        return "the trace shows no replay of its graph"
    body = "; it runs only if its condition holds" if conditionals else ""
    return f"no row in the {replays:,} replays was matched to it{body}"


def describe_hidden_work(conditionals: tuple[ConditionalType | None, ...]) -> str | None:
    """Describe the work missing from the times of a node; None if complete."""
    return LAST_ITERATION_ONLY if ConditionalType.WHILE in conditionals else None


def find_enclosing_conditionals(
    graph: CapturedGraph, by_id: Mapping[str, CapturedGraph]
) -> tuple[ConditionalType | None, ...]:
    """Return the types of the conditional nodes around a graph, innermost first.

    None for a type that was not read.
    """
    return tuple(
        node.params.type if isinstance(node.params, ConditionalParams) else None
        for _, node in iter_enclosing_nodes(graph, by_id)
        if node.kind is NodeKind.CONDITIONAL
    )
