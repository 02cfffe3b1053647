"""Programmatic edges of a graph, and whether their kernels overlap in replays."""

from __future__ import annotations

from statistics import median
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.model.graph import CapturedGraph, EdgeType, NodeKind
from graphviz_dash.planning.operations import MEASURED_COSTS

GAP_NS: Final = MEASURED_COSTS.same_stream_gap_ns
"""Gap between two kernels of a replay without a profiler, in ns."""


class ProgrammaticEdges(Struct, frozen=True):
    """Overlap that programmatic edges of a graph allow and achieve."""

    edges: int
    """Number of programmatic edges."""
    overlaps: int
    """Number of these edges whose second kernel starts before the first one ends."""
    gap_ns: float | None
    """Median time from the end of the first kernel to the start of the second one, in ns. Negative
    for an overlap. None without measured edges."""
    full_edges: int
    """Number of other edges between kernels."""
    hideable_ns: float
    """Gaps of these edges, which programmatic launch could hide at most, in ns."""


def measure_programmatic_edges(
    graph: CapturedGraph, timed_graph: MeasuredGraph
) -> ProgrammaticEdges | None:
    """Compare programmatic edges with replays. None for a graph without edges between kernels."""
    kernels = {node.index for node in graph.nodes if node.kind is NodeKind.KERNEL}
    inner = [edge for edge in graph.edges if {edge.source, edge.target} <= kernels]
    if not inner:
        return None
    programmatic = {
        (edge.source, edge.target) for edge in inner if edge.type is EdgeType.PROGRAMMATIC
    }
    gaps = []
    for edge in timed_graph.edges:
        (first_graph, first), (second_graph, second) = (
            timed_graph.nodes[edge.source],
            timed_graph.nodes[edge.target],
        )
        if first_graph == second_graph == graph.id and (first, second) in programmatic:
            gaps.append(edge.gap_ns)
    full_targets = {edge.target for edge in inner if edge.type is not EdgeType.PROGRAMMATIC}
    return ProgrammaticEdges(
        len(programmatic),
        sum(gap < 0 for gap in gaps),
        median(gaps) if gaps else None,
        len(inner) - len(programmatic),
        len(full_targets) * GAP_NS,
    )
