"""How far alignment can be believed: the node-id pass aligned without its ids, against them."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.topology import GraphTopology
from graphviz_dash.analysis.replays.graph_chooser import GraphIdentities
from graphviz_dash.analysis.replays.node_id_trace import node_id_trace
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
    """Why alignment gave a row to another node than its id names."""

    GRAPH = "another graph that looks the same"
    TWIN = "a parallel branch that looks the same"
    UNMATCHED = "matched to no node"
    OTHER = "another node"


class Agreement(Struct, frozen=True):
    """Alignment against ids, over the rows whose id names a node that they look like."""

    rows: int
    """Rows that are compared."""
    agreeing: int
    """Rows that alignment gave to the node that their id names."""
    unnamed: int
    """Rows whose id names no node that they look like; they are in no other count."""
    by_method: dict[str, tuple[int, int]]
    """Rows, and those that agree, by the method of alignment."""
    by_confidence: dict[float, tuple[int, int]]
    """Rows, and those that agree, by the confidence that alignment gave them."""
    misses: dict[MissCause, int]
    """Rows that do not agree, by the cause."""
    fork_join: bool
    """Whether some launched graph has parallel branches."""

    @property
    def share(self) -> float | None:
        """Rows that agree, 0 to 1; None without rows."""
        return self.agreeing / self.rows if self.rows else None


GOAL_LINE: Final = 0.999
GOAL_FORK_JOIN: Final = 0.98
"""What is asked of alignment on graphs of one stream, and on those with parallel branches."""


def agreement(run: Run) -> Agreement | None:
    """How alignment fares on the node-id pass of ``run``; None where it has none."""
    node_ids = run.node_ids
    if node_ids is None or not node_ids.rows:
        return None
    named = match_replays(run.graphs, node_id_trace(node_ids), GraphIdentities(node_ids.graphs))
    aligned = match_replays(run.graphs, node_id_trace(node_ids, with_ids=False))
    # Both go through the same launches of the same rows.
    truth = (named.node >= 0) & (named.method == METHODS.index(BY_ID))
    same = truth & (aligned.node == named.node) & (aligned.graph == named.graph)
    twins = _Twins(run.graphs)
    missed = np.flatnonzero(truth & ~same)
    misses = Counter(_cause(named, aligned, row, twins) for row in missed.tolist())
    return Agreement(
        rows=int(np.count_nonzero(truth)),
        agreeing=int(np.count_nonzero(same)),
        unnamed=int(np.count_nonzero(~truth)),
        by_method={
            METHODS[code]: counts for code, counts in _counts(aligned.method[truth], same[truth])
        },
        by_confidence=dict(_counts(np.round(aligned.confidence[truth], 2), same[truth])),
        misses={miss: misses[miss] for miss in MissCause if misses[miss]},
        fork_join=any(twins.branches(graph) for graph in run.graphs if graph.parent is None),
    )


def _counts(values: Ints, same: Ints) -> list[tuple[int, tuple[int, int]]]:
    kinds, inverse = np.unique(values, return_inverse=True)
    all_of = np.bincount(inverse, minlength=len(kinds))
    agree = np.bincount(inverse, weights=same, minlength=len(kinds)).astype(np.int64)
    return list(zip(kinds.tolist(), zip(all_of.tolist(), agree.tolist(), strict=True), strict=True))


class _Twins:
    """Which nodes of a graph nothing tells apart."""

    def __init__(self, graphs: tuple[CapturedGraph, ...]) -> None:
        self._graphs = {graph.id: graph for graph in graphs}
        self._signatures = Signatures(graphs)
        self._classes: dict[str, list[tuple[int, int]]] = {}

    def alike(self, graph_id: str, node: int, other: int) -> bool:
        if graph_id not in self._classes:
            codes = self._signatures.of_graph(graph_id)
            topology = GraphTopology.of(self._graphs[graph_id], codes >= 0)
            self._classes[graph_id] = topology.twin_classes(codes)
        classes = self._classes[graph_id]
        return classes[node] == classes[other]

    def branches(self, graph: CapturedGraph) -> bool:
        """Whether the graph has work that can run at the same time."""
        codes = self._signatures.of_graph(graph.id)
        return GraphTopology.of(graph, codes >= 0).chain() is None


def _cause(named: ReplayMatch, aligned: ReplayMatch, row: int, twins: _Twins) -> MissCause:
    if METHODS[aligned.method[row]] == UNMATCHED:
        return MissCause.UNMATCHED
    if aligned.graph[row] != named.graph[row]:
        return MissCause.GRAPH
    graph_id = named.graphs[int(named.graph[row])]
    if twins.alike(graph_id, int(named.node[row]), int(aligned.node[row])):
        return MissCause.TWIN
    return MissCause.OTHER
