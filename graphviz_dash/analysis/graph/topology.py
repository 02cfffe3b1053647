"""Dependencies of a captured graph, prepared for matching."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.model.graph import CapturedGraph


class GraphTopology(Struct, frozen=True):
    """Dependencies of a captured graph's nodes, without duplicates."""

    successors: list[list[int]]
    predecessors: list[list[int]]
    visible: npt.NDArray[np.bool_]
    """Mask of the nodes that a trace shows, shape (nodes,)."""
    order: list[int]
    """In topological order, else in creation order."""
    _sources: Ints
    """Sources of the edges between visible nodes, shape (k,)."""
    _targets: Ints
    """Targets of the edges between visible nodes, shape (k,)."""

    @classmethod
    def from_graph(cls, graph: CapturedGraph, visible: npt.NDArray[np.bool_]) -> GraphTopology:
        """Build the topology of ``graph``, which has no cycles."""
        successors: list[list[int]] = [[] for _ in graph.nodes]
        predecessors: list[list[int]] = [[] for _ in graph.nodes]
        edges = sorted({(edge.source, edge.target) for edge in graph.edges})
        for source, target in edges:
            successors[source].append(target)
            predecessors[target].append(source)
        visible_edges = [(a, b) for a, b in edges if visible[a] and visible[b]]
        pairs = np.array(visible_edges, dtype=np.int64).reshape(-1, 2)
        order = sort_topologically(range(len(successors)), successors)
        return cls(successors, predecessors, visible, order, pairs[:, 0], pairs[:, 1])

    def find_chain(self) -> Ints | None:
        """Return the visible nodes in order if they form a single chain, else None."""
        rank = np.full(len(self.visible), -1, dtype=np.int64).tolist()
        latest_nodes = [-1] * len(rank)
        chain: list[int] = []
        for node in self.order:
            # Latest visible node before this one.
            previous = max(
                (rank[p] if self.visible[p] else latest_nodes[p] for p in self.predecessors[node]),
                default=-1,
            )
            latest_nodes[node] = previous
            if self.visible[node]:
                if previous != len(chain) - 1:
                    return None
                rank[node] = len(chain)
                chain.append(node)
        return np.array(chain, dtype=np.int64)

    def is_in_order(self, node: Ints, start: Ints) -> bool:
        """Check that rows matched to ``node`` (-1: none) start after their dependencies."""
        starts = np.full(len(self.visible), -1, dtype=np.int64)
        is_match = node >= 0
        starts[node[is_match]] = start[is_match]
        source_start, target_start = starts[self._sources], starts[self._targets]
        return not bool(
            np.any((source_start >= 0) & (target_start >= 0) & (source_start > target_start))
        )

    def compute_equivalence_classes(self, codes: Ints) -> list[tuple[int, int]]:
        """Compute a class of indistinguishable nodes for each node.

        They have the same signature, ancestors and descendants.
        """
        hashes_up = self._compute_hashes(codes, self.order, self.predecessors)
        down = self._compute_hashes(codes, self.order[::-1], self.successors)
        return list(zip(hashes_up, down, strict=True))

    @staticmethod
    def _compute_hashes(codes: Ints, order: list[int], neighbours: list[list[int]]) -> list[int]:
        hashes = [0] * len(order)
        code = codes.tolist()
        for node in order:
            hashes[node] = hash((code[node], *sorted(hashes[p] for p in neighbours[node])))
        return hashes


def find_visible_edges(graph: CapturedGraph, visible: npt.NDArray[np.bool_]) -> Ints:
    """Find the edges between visible nodes, (k, 2), source first.

    Paths through invisible nodes (events, empty nodes) count as edges.
    """
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
    # Nearest visible ancestors of each node, or the node itself if visible.
    nearest_nodes: list[frozenset[int]] = [frozenset()] * len(graph.nodes)
    pairs: set[tuple[int, int]] = set()
    for node in sort_topologically(range(len(successors)), successors):
        ancestors = frozenset[int]().union(
            *(nearest_nodes[predecessor] for predecessor in predecessors[node])
        )
        if visible[node]:
            pairs |= {(source, node) for source in ancestors}
            ancestors = frozenset((node,))
        nearest_nodes[node] = ancestors
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def sort_topologically(
    nodes: Iterable[int], successors: Mapping[int, Iterable[int]] | Sequence[Iterable[int]]
) -> list[int]:
    """Sort ``nodes`` topologically, lowest first among equals; other successors are ignored."""
    degree = dict.fromkeys(nodes, 0)
    for node in degree:
        for successor in successors[node]:
            if successor in degree:
                degree[successor] += 1
    ready = [node for node, count in degree.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for successor in successors[node]:
            if successor in degree:
                degree[successor] -= 1
                if not degree[successor]:
                    heapq.heappush(ready, successor)
    return order


def list_chains(edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """List the nodes along chains of straight edges, by first node.

    A straight edge is the only one that leaves its source and the only one that enters its target.
    """
    outgoing = Counter(source for source, _ in edges)
    incoming = Counter(target for _, target in edges)
    following = {
        source: target
        for source, target in edges
        if outgoing[source] == 1 and incoming[target] == 1
    }
    chains = []
    for first in sorted(following.keys() - set(following.values())):
        chain = [first]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        chains.append(chain)
    return chains
