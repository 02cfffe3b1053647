"""Programmatic edges of a graph, and whether their kernels overlap in replays."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.graph.topology import list_chains
from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.model.graph import (
    CapturedGraph,
    EdgeType,
    GraphEdge,
    KernelParams,
    NodeKind,
)
from graphviz_dash.planning.operations import MEASURED_COSTS

GAP_NS: Final = MEASURED_COSTS.same_stream_gap_ns
"""Between two kernels of a replay without a profiler."""


_UNREAD: Final = (None, None)


class KernelChain(Struct, frozen=True):
    """Kernels that run one after the other, without programmatic edges."""

    nodes: tuple[int, ...]
    """Indices of the nodes, in order."""

    @property
    def hideable_ns(self) -> float:
        """Gaps that programmatic launch could hide at most."""
        return (len(self.nodes) - 1) * GAP_NS


class ProgrammaticEdges(Struct, frozen=True):
    """Overlap that programmatic edges of a graph allow and achieve."""

    edges: int
    overlaps: int
    """Edges whose second kernel starts before the first one ends."""
    gap_ns: float | None
    """Median time from the end of the first kernel to the start of the second; negative for an
    overlap. None without measured edges."""
    full_edges: int
    """Other edges between kernels."""
    hideable_ns: float
    """Their gaps, which programmatic launch could hide at most."""
    chains: tuple[KernelChain, ...] = ()
    """Chains of these edges, longest first."""
    without_wait: tuple[GraphEdge, ...] = ()
    """The second kernel does not wait for the first one."""
    without_trigger: tuple[GraphEdge, ...] = ()
    """The first kernel never releases the second one before its end."""
    unread: int = 0
    """Edges with a kernel whose code was not read."""


def measure_programmatic_edges(
    graph: CapturedGraph, timed_graph: MeasuredGraph
) -> ProgrammaticEdges | None:
    """Compare programmatic edges with replays; None without edges between kernels."""
    kernels = {node.index for node in graph.nodes if node.kind is NodeKind.KERNEL}
    inner = [edge for edge in graph.edges if {edge.source, edge.target} <= kernels]
    if not inner:
        return None
    programmatic_edges = [edge for edge in inner if edge.type is EdgeType.PROGRAMMATIC]
    programmatic = {(edge.source, edge.target) for edge in programmatic_edges}
    gaps = []
    for edge in timed_graph.edges:
        (first_graph, first), (second_graph, second) = (
            timed_graph.nodes[edge.source],
            timed_graph.nodes[edge.target],
        )
        if first_graph == second_graph == graph.id and (first, second) in programmatic:
            gaps.append(edge.gap_ns)
    controls = {
        node.index: (node.params.early_trigger, node.params.dependency_wait)
        for node in graph.nodes
        if isinstance(node.params, KernelParams)
    }
    sides = [
        (edge, controls.get(edge.source, _UNREAD)[0], controls.get(edge.target, _UNREAD)[1])
        for edge in programmatic_edges
    ]
    full_targets = {edge.target for edge in inner if edge.type is not EdgeType.PROGRAMMATIC}
    return ProgrammaticEdges(
        len(programmatic),
        sum(gap < 0 for gap in gaps),
        median(gaps) if gaps else None,
        len(inner) - len(programmatic),
        len(full_targets) * GAP_NS,
        _list_chains([edge for edge in inner if edge.type is not EdgeType.PROGRAMMATIC]),
        tuple(edge for edge, _, wait in sides if wait is False),
        tuple(edge for edge, trigger, _ in sides if trigger is False),
        sum(None in (trigger, wait) for _, trigger, wait in sides),
    )


def _list_chains(edges: Sequence[GraphEdge]) -> tuple[KernelChain, ...]:
    """List paths whose kernels wait for one kernel and are awaited by one, longest first."""
    chains = list_chains([(edge.source, edge.target) for edge in edges])
    return tuple(
        KernelChain(tuple(nodes)) for nodes in sorted(chains, key=lambda nodes: -len(nodes))
    )
