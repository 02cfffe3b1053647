"""Accuracy of alignment, measured on the node-id pass aligned without its ids."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.topology import GraphTopology
from graphviz_dash.analysis.replays.matching import GraphIdentities
from graphviz_dash.analysis.replays.node_id_trace import build_node_id_trace
from graphviz_dash.analysis.replays.replays import (
    BY_ID,
    METHODS,
    UNMATCHED,
    ReplayMatch,
    match_replays,
)
from graphviz_dash.analysis.trace.signatures import Signatures
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Run


class MissCause(StrEnum):
    """Cause of a row matched to a different node than its id names."""

    GRAPH = "another graph with the same appearance"
    TWIN = "a parallel branch with the same appearance"
    UNMATCHED = "matched to no node"
    OTHER = "another node"


class Agreement(Struct, frozen=True):
    """Agreement of alignment and ids, for rows that look like the node named by their id."""

    rows: int
    agreeing: int
    unnamed: int
    """Rows whose id names no node of the same appearance, excluded from other counts."""
    by_method: dict[str, tuple[int, int]]
    """Rows and agreeing rows by alignment method."""
    by_confidence: dict[float, tuple[int, int]]
    """Rows and agreeing rows by alignment confidence."""
    misses: dict[MissCause, int]
    fork_join: bool
    """True if a root graph has parallel branches."""

    @property
    def share(self) -> float | None:
        """Fraction of agreeing rows, 0 to 1; None without rows."""
        return self.agreeing / self.rows if self.rows else None


GOAL_LINE: Final = 0.999
GOAL_FORK_JOIN: Final = 0.98
"""Target accuracy for single-stream graphs, and for graphs with parallel branches."""


def measure_agreement(run: Run) -> Agreement | None:
    """Measure alignment accuracy on the node-id pass of ``run``; None if it has none."""
    node_ids = run.node_ids
    if node_ids is None or not node_ids.rows:
        return None
    named_replays = match_replays(
        run.graphs, build_node_id_trace(node_ids), GraphIdentities(node_ids.graphs)
    )
    aligned_replays = match_replays(run.graphs, build_node_id_trace(node_ids, with_ids=False))
    # Both match the same launches and rows.
    truth = (named_replays.node >= 0) & (named_replays.method == METHODS.index(BY_ID))
    is_equal = (
        truth
        & (aligned_replays.node == named_replays.node)
        & (aligned_replays.graph == named_replays.graph)
    )
    twins = _EquivalentNodes(run.graphs)
    missed_rows = np.flatnonzero(truth & ~is_equal)
    misses = Counter(
        _determine_cause(named_replays, aligned_replays, row, twins) for row in missed_rows.tolist()
    )
    return Agreement(
        rows=int(np.count_nonzero(truth)),
        agreeing=int(np.count_nonzero(is_equal)),
        unnamed=int(np.count_nonzero(~truth)),
        by_method={
            METHODS[code]: counts
            for code, counts in _count_by_value(aligned_replays.method[truth], is_equal[truth])
        },
        by_confidence=dict(
            _count_by_value(np.round(aligned_replays.confidence[truth], 2), is_equal[truth])
        ),
        misses={miss: misses[miss] for miss in MissCause if misses[miss]},
        fork_join=any(twins.has_branches(graph) for graph in run.graphs if graph.parent is None),
    )


def _count_by_value(values: Ints, same: Ints) -> list[tuple[int, tuple[int, int]]]:
    kinds, inverse = np.unique(values, return_inverse=True)
    kind_counts = np.bincount(inverse, minlength=len(kinds))
    agree = np.bincount(inverse, weights=same, minlength=len(kinds)).astype(np.int64)
    return list(
        zip(kinds.tolist(), zip(kind_counts.tolist(), agree.tolist(), strict=True), strict=True)
    )


class _EquivalentNodes:
    """Nodes of a graph that no visible property distinguishes."""

    def __init__(self, graphs: tuple[CapturedGraph, ...]) -> None:
        self._graphs = {graph.id: graph for graph in graphs}
        self._signatures = Signatures(graphs)
        self._classes: dict[str, list[tuple[int, int]]] = {}

    def are_equivalent(self, graph_id: str, node: int, other: int) -> bool:
        if graph_id not in self._classes:
            codes = self._signatures.get_graph_codes(graph_id)
            topology = GraphTopology.from_graph(self._graphs[graph_id], codes >= 0)
            self._classes[graph_id] = topology.compute_equivalence_classes(codes)
        classes = self._classes[graph_id]
        return classes[node] == classes[other]

    def has_branches(self, graph: CapturedGraph) -> bool:
        codes = self._signatures.get_graph_codes(graph.id)
        return GraphTopology.from_graph(graph, codes >= 0).find_chain() is None


def _determine_cause(
    named: ReplayMatch, aligned: ReplayMatch, row: int, twins: _EquivalentNodes
) -> MissCause:
    if METHODS[aligned.method[row]] == UNMATCHED:
        return MissCause.UNMATCHED
    if aligned.graph[row] != named.graph[row]:
        return MissCause.GRAPH
    graph_id = named.graphs[int(named.graph[row])]
    if twins.are_equivalent(graph_id, int(named.node[row]), int(aligned.node[row])):
        return MissCause.TWIN
    return MissCause.OTHER
