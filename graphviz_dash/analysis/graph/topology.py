"""The dependencies of a captured graph, in the form that matching needs."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.model.graph import CapturedGraph


class GraphTopology(Struct, frozen=True):
    """Dependencies of a captured graph's nodes, without repeats."""

    successors: list[list[int]]
    """For each node those that depend on it."""
    predecessors: list[list[int]]
    """For each node those that it depends on."""
    visible: npt.NDArray[np.bool_]
    """Whether a trace shows each node, shape (nodes,)."""
    order: list[int]
    """All nodes, after what they depend on, else in creation order."""
    _before: Ints
    """Sources of the edges between visible nodes, shape (k,)."""
    _after: Ints
    """Targets of the edges between visible nodes, shape (k,)."""

    @classmethod
    def of(cls, graph: CapturedGraph, visible: npt.NDArray[np.bool_]) -> GraphTopology:
        """The topology of ``graph``, which has no cycles."""
        successors: list[list[int]] = [[] for _ in graph.nodes]
        predecessors: list[list[int]] = [[] for _ in graph.nodes]
        edges = sorted({(edge.source, edge.target) for edge in graph.edges})
        for source, target in edges:
            successors[source].append(target)
            predecessors[target].append(source)
        shown = [(a, b) for a, b in edges if visible[a] and visible[b]]
        pairs = np.array(shown, dtype=np.int64).reshape(-1, 2)
        order = _ordered(successors, predecessors)
        return cls(successors, predecessors, visible, order, pairs[:, 0], pairs[:, 1])

    def chain(self) -> Ints | None:
        """The visible nodes in order if each depends on the one before, so that a replay can run
        them in one order only; else None."""
        rank = np.full(len(self.visible), -1, dtype=np.int64).tolist()
        reach = [-1] * len(rank)
        chain: list[int] = []
        for node in self.order:
            # The latest visible node that lies before this one.
            before = max(
                (rank[p] if self.visible[p] else reach[p] for p in self.predecessors[node]),
                default=-1,
            )
            reach[node] = before
            if self.visible[node]:
                if before != len(chain) - 1:
                    return None
                rank[node] = len(chain)
                chain.append(node)
        return np.array(chain, dtype=np.int64)

    def in_order(self, node: Ints, start: Ints) -> bool:
        """Whether rows that are matched to ``node`` (-1: none) begin after what they depend on."""
        begun = np.full(len(self.visible), -1, dtype=np.int64)
        matched = node >= 0
        begun[node[matched]] = start[matched]
        before, after = begun[self._before], begun[self._after]
        return not bool(np.any((before >= 0) & (after >= 0) & (before > after)))

    def twin_classes(self, codes: Ints) -> list[tuple[int, int]]:
        """For each node a value that it shares with those that nothing tells from it: of the same
        signature, with the same all the way up and all the way down."""
        up = self._hashes(codes, self.order, self.predecessors)
        down = self._hashes(codes, self.order[::-1], self.successors)
        return list(zip(up, down, strict=True))

    @staticmethod
    def _hashes(codes: Ints, order: list[int], before: list[list[int]]) -> list[int]:
        hashes = [0] * len(order)
        code = codes.tolist()
        for node in order:
            hashes[node] = hash((code[node], *sorted(hashes[p] for p in before[node])))
        return hashes


def visible_edges(graph: CapturedGraph, visible: npt.NDArray[np.bool_]) -> Ints:
    """Which visible node must follow which, (k, 2), source first: the edges of ``graph``, with
    those over nodes that are not visible (events, empty ones) drawn through."""
    edges = np.array(
        sorted({(edge.source, edge.target) for edge in graph.edges}), dtype=np.int64
    ).reshape(-1, 2)
    if bool(visible.all()):
        return edges
    successors: list[list[int]] = [[] for _ in graph.nodes]
    predecessors: list[list[int]] = [[] for _ in graph.nodes]
    for source, target in edges.tolist():
        successors[source].append(target)
        predecessors[target].append(source)
    # For each node the nearest visible ones before it, itself if it is one.
    nearest: list[frozenset[int]] = [frozenset()] * len(graph.nodes)
    pairs: set[tuple[int, int]] = set()
    for node in _ordered(successors, predecessors):
        before = frozenset[int]().union(
            *(nearest[predecessor] for predecessor in predecessors[node])
        )
        if visible[node]:
            pairs |= {(source, node) for source in before}
            before = frozenset((node,))
        nearest[node] = before
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def _ordered(successors: list[list[int]], predecessors: list[list[int]]) -> list[int]:
    waiting = [len(before) for before in predecessors]
    ready = [node for node, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for after in successors[node]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(ready, after)
    return order
