"""Where each node of a captured graph comes from: the launch that made it, its op, module and line.

While a stream captures, each launch call adds one node, so the launch calls inside the capture, by
time, are the nodes in creation order. The profiler links a launch to its operator (External id);
ranges of the collector lead to module and source line; a backward operator leads to its forward one
by the autograd sequence number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, column
from graphviz_dash.analysis.attribution.capture_tables import CaptureTables
from graphviz_dash.analysis.attribution.captured_launches import (
    LAUNCHED_KINDS,
    capture_windows,
    launch_rows,
)
from graphviz_dash.analysis.attribution.origins import NodeOrigin, Origins
from graphviz_dash.analysis.sequence_alignment import Alignment, align
from graphviz_dash.model.graph import CapturedGraph, NodeKind

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

__all__ = [
    "BY_GAPS",
    "BY_ORDER",
    "NOT_ATTRIBUTED",
    "Attribution",
    "NodeOrigin",
    "attribute",
    "attributions",
]

BY_ORDER: Final = "capture order"
BY_GAPS: Final = "capture order, gaps"
NOT_ATTRIBUTED: Final = "none"

_BETWEEN_GAPS: Final = 0.9
"""Confidence of a launch that no other pairing with as few gaps would give to another node."""

_CODES: Final = {kind: code for code, kind in enumerate(LAUNCHED_KINDS)}


class Attribution(Struct, frozen=True):
    """The origin of every node of one graph, by index."""

    graph: str
    """Id of the graph."""
    origins: tuple[NodeOrigin, ...]
    """One for each node, by node index."""
    capture_launches: int
    """Launches seen inside the capture of the graph."""
    unmatched_launches: int
    """Those of them that no node was found for."""
    unmatched_nodes: int
    """Nodes that a launch must have made and for which none was found."""


class _Capture:
    """The trace of a capture, and what is made of it once for all its graphs."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.tables = CaptureTables(trace)

    @cached_property
    def launches(self) -> tuple[Ints, Ints, Ints]:
        """Rows, times and codes of the launches that would make a node."""
        rows, kinds = launch_rows(self.trace)
        codes = np.array([_CODES[kind] for kind in kinds], dtype=np.int64)
        return rows, column(self.trace.runtime, "ts")[rows], codes


def attribute(graph: CapturedGraph, *captures: Trace) -> Attribution:
    """The origins of the nodes of one graph, as :func:`attributions` finds them."""
    return attributions((graph,), captures)[graph.id]


def attributions(
    graphs: Iterable[CapturedGraph], captures: Sequence[Trace]
) -> dict[str, Attribution]:
    """The origins of the nodes of ``graphs``, by their ids, each from the one of the traces of
    ``captures`` that shows its own.

    Launches and nodes that agree in number and kinds are paired by order, with confidence 1.
    Otherwise they are aligned by kind: a pair is 0.9 sure where only one pairing has the fewest
    gaps, and less where a launch could have made one of several nodes; if more than a tenth is left
    over, nothing is paired. Near-linear in the rows of the trace.
    """
    read = dict(enumerate(map(_Capture, captures)))
    return {graph.id: _attribution(graph, read.get(graph.captured_in)) for graph in graphs}


def _attribution(graph: CapturedGraph, capture: _Capture | None) -> Attribution:
    launched_nodes = [node.index for node in graph.nodes if node.kind in _CODES]
    if graph.parent is not None:
        holder, node = graph.parent
        reason = (
            f"it lies in a body of node {node} of {holder}, whose launches cannot be distinguished"
        )
        return _nothing(graph, reason, len(launched_nodes))
    if capture is None:
        return _nothing(graph, "there is no trace of the capture", len(launched_nodes))
    windows = capture_windows(graph.id, capture.trace)
    if graph.captured_as is not None:
        windows = windows[graph.captured_as : graph.captured_as + 1]
    if not windows:
        return _nothing(graph, "the trace shows no capture of this graph", len(launched_nodes))
    kinds = np.array([_CODES[graph.nodes[index].kind] for index in launched_nodes], dtype=np.int64)
    best_fit = _best(kinds, capture, windows)
    if best_fit is None:
        return _nothing(
            graph, "the trace shows several captures like this one", len(launched_nodes)
        )
    launches, alignment = best_fit
    if alignment is None:
        reason = (
            f"the capture shows {len(launches):,} launches, which do not fit "
            f"{len(launched_nodes):,} nodes"
            if len(launches)
            else "no launch of the capture made it: it was added through the graph API"
        )
        return _nothing(graph, reason, len(launched_nodes), len(launches))
    exact = alignment.pairs == len(launched_nodes) == len(launches)
    origins = Origins(capture.trace, launches, capture.tables)
    by_node = {
        node: origins.origin(
            partner,
            BY_ORDER if exact else BY_GAPS,
            1.0 if exact else _BETWEEN_GAPS if spread == 0 else 1 / (1 + spread),
        )
        for node, partner, spread in zip(
            launched_nodes, alignment.partner.tolist(), alignment.spread.tolist(), strict=True
        )
        if partner >= 0
    }
    return Attribution(
        graph=graph.id,
        origins=tuple(by_node.get(node.index) or _unmatched(node.kind) for node in graph.nodes),
        capture_launches=len(launches),
        unmatched_launches=len(launches) - alignment.pairs,
        unmatched_nodes=len(launched_nodes) - alignment.pairs,
    )


def _best(
    kinds: Ints, capture: _Capture, windows: list[tuple[int, int]]
) -> tuple[Ints, Alignment | None] | None:
    """The launches of the window that fits best, and their alignment with the nodes; None when
    several fit equally well, for there is no telling which capture was this graph's."""
    rows, times, codes = capture.launches
    tried = []
    for begin, end in windows:
        first, last = np.searchsorted(times, [begin, end])
        alignment = align(kinds, codes[first:last])
        unpaired = len(kinds) + int(last - first) - 2 * (alignment.pairs if alignment else 0)
        tried.append((unpaired, rows[first:last], alignment))
    least = min(unpaired for unpaired, _, _ in tried)
    best = [(launches, alignment) for unpaired, launches, alignment in tried if unpaired == least]
    return best[0] if len(best) == 1 else None


def _nothing(graph: CapturedGraph, reason: str, nodes: int, launches: int = 0) -> Attribution:
    origin = NodeOrigin(NOT_ATTRIBUTED, 0.0, reason=reason)
    return Attribution(graph.id, (origin,) * len(graph.nodes), launches, launches, nodes)


def _unmatched(kind: NodeKind) -> NodeOrigin:
    reason = (
        "no launch of the capture was found for it"
        if kind in _CODES
        else f"no launch makes a node of kind {kind.value}"
    )
    return NodeOrigin(NOT_ATTRIBUTED, 0.0, reason=reason)
