"""Dependencies that a graph needs because its nodes share memory.

Nodes must keep their order if both access the same memory, even if both only read. Nodes with
unknown operands keep their order relative to all others. Redundant edges are reliable unless a
kernel accesses memory outside its operands (see ``GraphNode.operands``).

Method: vector clocks on chains that cover the graph (Fidge 1988, Mattern 1989); per memory piece,
each node follows the last accessing predecessor on each chain.
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
"""Group and part of a node, by node index."""

_MAX_CLOCKS: Final = 20_000_000
"""Limit on nodes times chains: beyond it the clocks use more than 80 MB."""

_MAX_PIECES: Final = 5_000_000
"""Limit on memory pieces, summed over the accessing nodes."""


_MAX_VISITS: Final = 10_000_000
"""Limit on chain visits, summed over memory pieces and accessing nodes: a few seconds."""


def has_operands(graph: CapturedGraph) -> bool:
    """Check whether any node of the graph has known operands."""
    return any(node.operands for node in graph.nodes)


def count_unknown_nodes(graph: CapturedGraph) -> int:
    """Count kernels, memcpys and memsets with unknown operands."""
    kinds = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)
    return sum(node.kind in kinds and _is_unknown(node) for node in graph.nodes)


def find_memory_edges(graph: CapturedGraph, independent_parts: GroupParts) -> Ints | None:
    """Find the dependencies that the nodes of ``graph`` need, (k, 2), source first.

    None if the graph is too large. Different parts of a group in ``independent_parts`` are
    independent; the nodes of a group are consecutive.
    """
    count = len(graph.nodes)
    edges = np.array([(edge.source, edge.target) for edge in graph.edges], dtype=np.int64)
    depend = Dependencies.from_edges(count, edges.reshape(-1, 2))
    clocks = _Clocks.from_dependencies(depend)
    if clocks is None:
        return None
    pieces = _find_pieces(graph.nodes)
    if pieces is None or _count_visits(pieces, clocks) > _MAX_VISITS:
        return None
    needed_pairs: set[tuple[int, int]] = set()
    rank = np.empty(count, dtype=np.int64)
    rank[depend.order] = np.arange(count)
    for nodes in pieces:
        nodes.sort(key=rank.__getitem__)
        _add_piece_dependencies(nodes, clocks, independent_parts, needed_pairs)
    unknown = [node for node in depend.order if _is_unknown(graph.nodes[node])]
    _add_order_dependencies(unknown, clocks, needed_pairs)
    return np.array(sorted(needed_pairs), dtype=np.int64).reshape(-1, 2)


class _Clocks:
    """Vector clocks: ``before[node][chain]`` is the last position on a chain before it, or -1."""

    def __init__(self, chain: list[int], position: list[int], chains: list[list[int]]) -> None:
        self.chain, self.position, self.chains = chain, position, chains
        self.before = np.full((len(chain), len(chains)), -1, dtype=np.int32)

    @classmethod
    def from_dependencies(cls, depend: Dependencies) -> _Clocks | None:
        chain, position = [0] * depend.count, [0] * depend.count
        chains: list[list[int]] = []
        for node in depend.order:
            extendable = (
                predecessor
                for predecessor in depend.predecessors[node]
                if chains[chain[predecessor]][-1] == predecessor
            )
            last = next(extendable, None)
            if last is None:
                chains.append([])
            chain[node] = len(chains) - 1 if last is None else chain[last]
            position[node] = len(chains[chain[node]])
            chains[chain[node]].append(node)
        if depend.count * len(chains) > _MAX_CLOCKS:
            return None
        clocks = cls(chain, position, chains)
        for node in depend.order:
            clock = clocks.before[node]
            for predecessor in depend.predecessors[node]:
                np.maximum(clock, clocks.before[predecessor], out=clock)
            for predecessor in depend.predecessors[node]:
                clock[chain[predecessor]] = max(clock[chain[predecessor]], position[predecessor])
        return clocks


def _is_unknown(node: GraphNode) -> bool:
    return node.operands is None and node.kind is not NodeKind.EMPTY


def _find_pieces(nodes: Sequence[GraphNode]) -> list[list[int]] | None:
    """List the nodes of each memory piece that several nodes access; None if too many."""
    ends: defaultdict[int, set[int]] = defaultdict(set)
    for node in nodes:
        for operand in node.operands or ():
            ends[operand.allocation] |= {operand.offset, operand.offset + operand.bytes}
    cuts = {allocation: sorted(offsets) for allocation, offsets in ends.items()}
    nodes_by_piece: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    total = 0
    for node_index, node in enumerate(nodes):
        for operand in node.operands or ():
            cut = cuts[operand.allocation]
            first, last = (
                bisect_left(cut, operand.offset),
                bisect_left(cut, operand.offset + operand.bytes),
            )
            total += last - first
            if total > _MAX_PIECES:
                return None
            for piece in range(first, last):
                nodes_by_piece[operand.allocation, piece].append(node_index)
    return [
        list(piece_nodes)
        for piece_nodes in {tuple(nodes) for nodes in nodes_by_piece.values() if len(nodes) > 1}
    ]


def _count_visits(pieces: list[list[int]], clocks: _Clocks) -> int:
    return sum(len(nodes) * len({clocks.chain[node] for node in nodes}) for nodes in pieces)


def _add_piece_dependencies(
    nodes: list[int],
    clocks: _Clocks,
    independent_parts: GroupParts,
    needed: set[tuple[int, int]],
) -> None:
    """Add the dependencies among ``nodes``, ordered topologically, which access the same memory.

    Adds the last predecessors of each chain, which imply the others.
    """
    by_chain: defaultdict[int, list[int]] = defaultdict(list)
    for node in nodes:
        before = clocks.before[node]
        for chain, earlier_piece in by_chain.items():
            count = bisect_right(earlier_piece, before[chain], key=clocks.position.__getitem__)
            needed.update(
                (predecessor, node)
                for predecessor in _select_last(node, earlier_piece, count, independent_parts)
            )
        by_chain[clocks.chain[node]].append(node)


def _select_last(
    node: int, earlier: list[int], count: int, independent_parts: GroupParts
) -> Iterator[int]:
    """Select the last of ``earlier[:count]``, consecutive on a chain, that ``node`` must follow."""
    node_part = independent_parts.get(node)
    group: int | None = None
    parts: set[int] = set()
    for index in range(count - 1, -1, -1):
        other_part = independent_parts.get(earlier[index])
        if (
            node_part is not None
            and other_part is not None
            and other_part[0] == node_part[0]
            and other_part != node_part
        ):
            continue
        if group is None:
            yield earlier[index]
            if other_part is None or other_part == node_part:
                return
            group = other_part[0]
        elif other_part is None or other_part[0] != group:
            return
        elif other_part[1] not in parts:
            # Parts of a group are independent, so each needs a separate dependency.
            yield earlier[index]
        parts.add(other_part[1])


def _add_order_dependencies(
    unknown: list[int], clocks: _Clocks, needed: set[tuple[int, int]]
) -> None:
    """Add dependencies that fix the order of ``unknown`` nodes relative to all others."""
    positions: defaultdict[int, list[int]] = defaultdict(list)
    for node in unknown:
        positions[clocks.chain[node]].append(clocks.position[node])

    def find_earlier(node: int) -> Iterator[int]:
        for chain, chain_positions in positions.items():
            count = bisect_right(chain_positions, int(clocks.before[node, chain]))
            if count:
                yield clocks.chains[chain][chain_positions[count - 1]]

    if unknown:
        for node in range(len(clocks.chain)):
            needed.update((predecessor, node) for predecessor in find_earlier(node))
    for node in unknown:
        # Predecessors of an earlier unknown node are implied.
        covered_clocks = np.full(len(clocks.chains), -1, dtype=np.int32)
        for predecessor in find_earlier(node):
            np.maximum(covered_clocks, clocks.before[predecessor], out=covered_clocks)
        for chain in np.flatnonzero(clocks.before[node] > covered_clocks).tolist():
            first, last = int(covered_clocks[chain]) + 1, int(clocks.before[node, chain])
            needed.update(
                (predecessor, node) for predecessor in clocks.chains[chain][first : last + 1]
            )
