"""Which dependencies of a graph its nodes need, by the memory that they can reach.

Two nodes of which one comes before the other must keep that order if there is memory that both can
reach; if there is none, neither can see what the other does. Reading is not told from writing, so
two nodes that only read the same weights count as in need of their order: what is found to be
without need is so, what is kept may be too. The other way it can be wrong only where a kernel
reaches memory that is not among its operands (``GraphNode.operands`` says how), and a node whose
operands are not known keeps its order to all others.

Method: the graph is covered with chains, one after another along its edges; for each node the last
place on each chain that comes before it tells all that does (vector clocks: Fidge 1988, Mattern
1989). Memory is cut at the ends of all operands; for each piece, each node that reaches it follows
the last on each chain that does and comes before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.critical_path import Dependencies
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind

GroupParts: TypeAlias = Mapping[int, tuple[int, int]]
"""By place a group and a part of it."""

_MOST_CLOCKS: Final = 20_000_000
"""Nodes times chains: beyond it the clocks would take more than 80 MB."""

_MOST_PIECES: Final = 5_000_000
"""Pieces of memory, summed over the nodes that reach them."""


_MOST_LOOKS: Final = 10_000_000
"""Chains that are looked at, summed over the pieces of memory and the nodes that reach them: some
seconds."""


def knows_memory(graph: CapturedGraph) -> bool:
    """Whether any node of the graph tells what memory it reaches."""
    return any(node.operands for node in graph.nodes)


def unknown_nodes(graph: CapturedGraph) -> int:
    """How many kernels, memcpys and memsets do not tell what memory they reach."""
    kinds = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)
    return sum(node.kind in kinds and _is_unknown(node) for node in graph.nodes)


def memory_edges(graph: CapturedGraph, apart: GroupParts) -> Ints | None:
    """The dependencies that the nodes of ``graph`` need, (k, 2), source first: enough of them to
    imply all. None for a graph of too many parallel branches, or too much memory in common.

    Nodes of one group of ``apart`` but different parts are known not to need each other, whatever
    they reach; a group's nodes follow one another.
    """
    count = len(graph.nodes)
    edges = np.array([(edge.source, edge.target) for edge in graph.edges], dtype=np.int64)
    depend = Dependencies.of(count, edges.reshape(-1, 2))
    clocks = _Clocks.of(depend)
    if clocks is None:
        return None
    pieces = _pieces(graph.nodes)
    if pieces is None or _looks(pieces, clocks) > _MOST_LOOKS:
        return None
    needed: set[tuple[int, int]] = set()
    rank = np.empty(count, dtype=np.int64)
    rank[depend.order] = np.arange(count)
    for nodes in pieces:
        nodes.sort(key=rank.__getitem__)
        _follow(nodes, clocks, apart, needed)
    unknown = [node for node in depend.order if _is_unknown(graph.nodes[node])]
    _keep_in_place(unknown, clocks, needed)
    return np.array(sorted(needed), dtype=np.int64).reshape(-1, 2)


class _Clocks:
    """``chain`` of each node and its ``position`` on it, ``chains`` of nodes, and
    ``before[node][chain]``: the last position on a chain that comes before a node, -1 for none."""

    def __init__(self, chain: list[int], position: list[int], chains: list[list[int]]) -> None:
        self.chain, self.position, self.chains = chain, position, chains
        self.before = np.full((len(chain), len(chains)), -1, dtype=np.int32)

    @classmethod
    def of(cls, depend: Dependencies) -> _Clocks | None:
        chain, position = [0] * depend.count, [0] * depend.count
        chains: list[list[int]] = []
        for node in depend.order:
            free = (
                earlier for earlier in depend.before[node] if chains[chain[earlier]][-1] == earlier
            )
            last = next(free, None)
            if last is None:
                chains.append([])
            chain[node] = len(chains) - 1 if last is None else chain[last]
            position[node] = len(chains[chain[node]])
            chains[chain[node]].append(node)
        if depend.count * len(chains) > _MOST_CLOCKS:
            return None
        clocks = cls(chain, position, chains)
        for node in depend.order:
            own = clocks.before[node]
            for earlier in depend.before[node]:
                np.maximum(own, clocks.before[earlier], out=own)
            for earlier in depend.before[node]:
                own[chain[earlier]] = max(own[chain[earlier]], position[earlier])
        return clocks


def _is_unknown(node: GraphNode) -> bool:
    return node.operands is None and node.kind is not NodeKind.EMPTY


def _pieces(nodes: Sequence[GraphNode]) -> list[list[int]] | None:
    """For each piece of memory that several nodes reach their places; pieces that the same nodes
    reach count once. None if there are too many."""
    ends: defaultdict[int, set[int]] = defaultdict(set)
    for node in nodes:
        for operand in node.operands or ():
            ends[operand.allocation] |= {operand.offset, operand.offset + operand.bytes}
    cuts = {allocation: sorted(offsets) for allocation, offsets in ends.items()}
    reached: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    total = 0
    for node_index, node in enumerate(nodes):
        for operand in node.operands or ():
            cut = cuts[operand.allocation]
            first, last = (
                bisect_left(cut, operand.offset),
                bisect_left(cut, operand.offset + operand.bytes),
            )
            total += last - first
            if total > _MOST_PIECES:
                return None
            for piece in range(first, last):
                reached[operand.allocation, piece].append(node_index)
    return [
        list(piece_nodes)
        for piece_nodes in {tuple(nodes) for nodes in reached.values() if len(nodes) > 1}
    ]


def _looks(pieces: list[list[int]], clocks: _Clocks) -> int:
    return sum(len(nodes) * len({clocks.chain[node] for node in nodes}) for nodes in pieces)


def _follow(
    nodes: list[int],
    clocks: _Clocks,
    apart: GroupParts,
    needed: set[tuple[int, int]],
) -> None:
    """Adds what ``nodes`` (in topological order), which reach the same memory, need of each other:
    of each chain the last that come before, and imply the others."""
    by_chain: defaultdict[int, list[int]] = defaultdict(list)
    for node in nodes:
        before = clocks.before[node]
        for chain, earlier in by_chain.items():
            count = bisect_right(earlier, before[chain], key=clocks.position.__getitem__)
            needed.update((other, node) for other in _last(node, earlier, count, apart))
        by_chain[clocks.chain[node]].append(node)


def _last(node: int, earlier: list[int], count: int, apart: GroupParts) -> Iterator[int]:
    """Those of the first ``count`` of ``earlier``, one after another on a chain, that ``node`` must
    follow and that the others it must follow come before."""
    own = apart.get(node)
    group: int | None = None
    parts: set[int] = set()
    for at in range(count - 1, -1, -1):
        its = apart.get(earlier[at])
        if own is not None and its is not None and its[0] == own[0] and its != own:
            continue
        if group is None:
            yield earlier[at]
            if its is None or its == own:
                return
            group = its[0]
        elif its is None or its[0] != group:
            return
        elif its[1] not in parts:
            # The parts of a group come before no part of it: each is followed by itself.
            yield earlier[at]
        parts.add(its[1])


def _keep_in_place(unknown: list[int], clocks: _Clocks, needed: set[tuple[int, int]]) -> None:
    """Adds what keeps each of ``unknown`` (in topological order) after all that comes before it,
    and before all that comes after."""
    positions: defaultdict[int, list[int]] = defaultdict(list)
    for node in unknown:
        positions[clocks.chain[node]].append(clocks.position[node])

    def earlier(node: int) -> Iterator[int]:
        """On each chain the last of ``unknown`` that comes before ``node``."""
        for chain, its in positions.items():
            count = bisect_right(its, int(clocks.before[node, chain]))
            if count:
                yield clocks.chains[chain][its[count - 1]]

    if unknown:
        for node in range(len(clocks.chain)):
            needed.update((predecessor, node) for predecessor in earlier(node))
    for node in unknown:
        # What comes before an earlier one of them need not be named again.
        covered = np.full(len(clocks.chains), -1, dtype=np.int32)
        for predecessor in earlier(node):
            np.maximum(covered, clocks.before[predecessor], out=covered)
        for chain in np.flatnonzero(clocks.before[node] > covered).tolist():
            first, last = int(covered[chain]) + 1, int(clocks.before[node, chain])
            needed.update(
                (predecessor, node) for predecessor in clocks.chains[chain][first : last + 1]
            )
