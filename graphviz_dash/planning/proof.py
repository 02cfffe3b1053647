"""Whether a captured graph orders all operators that share memory, by the graph's own edges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.parallel import Access, Operator
from graphviz_dash.planning.operators import dependencies


def node_ranges(operators: Sequence[Operator]) -> list[range]:
    """The indices of each operator's nodes: a capture makes them in the order of the program."""
    ends = list(accumulate(operator.nodes for operator in operators))
    return [range(end - operator.nodes, end) for operator, end in zip(operators, ends, strict=True)]


_WORK: Final = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)


def without_bookkeeping(
    operators: Sequence[Operator], graph: CapturedGraph
) -> tuple[list[Operator], list[tuple[int, int]]]:
    """The operators and the edges (source, target) of their ``graph`` without the nodes by which a
    library of collectives keeps its own order: event records that nothing follows, event waits that
    follow nothing, calls on the host. Who comes before such a node comes before those behind it."""
    dropped = {
        node
        for operator, nodes in zip(operators, node_ranges(operators), strict=True)
        if operator.is_collective
        for node in nodes
        if graph.nodes[node].kind not in _WORK
    }
    number: dict[int, int] = {}
    behind: list[set[int]] = [set() for _ in graph.nodes]
    for edge in graph.edges:
        behind[edge.target].add(edge.source)
    # A node follows nodes with lower indices only, so that what it is behind is whole by its turn.
    for node in range(len(behind)):
        for source in behind[node] & dropped:
            behind[node] |= behind[source]
        behind[node] -= dropped
        if node not in dropped:
            number[node] = len(number)
    kept = [
        replace(operator, nodes=sum(node in number for node in nodes))
        for operator, nodes in zip(operators, node_ranges(operators), strict=True)
    ]
    edges = [(number[source], number[node]) for node in number for source in behind[node]]
    return kept, sorted(edges)


def not_joined(operators: Sequence[Operator], edges: Sequence[tuple[int, int]]) -> int | None:
    """The first operator of a graph captured on one stream whose nodes do not all come before those
    of the next one: it launched work that the stream does not wait for. None where all do."""
    before = _ancestors(operators, edges)
    last: int | None = None
    for index, operator in enumerate(operators):
        if operator.nodes:
            if last is not None and not before[index] >> last & 1:
                return last
            last = index
    return None


def unordered(
    operators: Sequence[Operator],
    addresses: Sequence[tuple[Access, ...]],
    edges: Sequence[tuple[int, int]],
) -> tuple[int, int] | None:
    """Two operators that reach the same memory, at least one writing, of which none comes before
    the other; None where there are no such.

    Args:
        operators: those of the step.
        addresses: for each the addresses that it reaches in this capture, where memory was given
            out again as the capture went.
        edges: of the captured graph, between the indices of its nodes.
    """
    before = _ancestors(operators, edges)
    placed = [
        replace(operator, accesses=own)
        for operator, own in zip(operators, _by_block(addresses), strict=True)
    ]
    for target, needs in enumerate(dependencies(placed)):
        for need in needs:
            if not before[target] >> need.source & 1:
                return need.source, target
    return None


def _ancestors(operators: Sequence[Operator], edges: Sequence[tuple[int, int]]) -> list[int]:
    """For each operator a bit for each other all of whose nodes come before all of its own."""
    ranges = node_ranges(operators)
    owner = [index for index, nodes in enumerate(ranges) for _ in nodes]
    inside: list[list[int]] = [[] for _ in owner]
    has_follower = [False] * len(owner)
    sources: list[list[int]] = [[] for _ in owner]
    for source, target in edges:
        if owner[source] == owner[target]:
            inside[target].append(source)
            has_follower[source] = True
        else:
            sources[target].append(source)
    before: list[int] = [0] * len(operators)
    for index, nodes in enumerate(ranges):
        roots = [node for node in nodes if not inside[node]]
        masks = [_before_root(sources[node], owner, before, ranges, has_follower) for node in roots]
        common = masks[0] if masks else 0
        for mask in masks[1:]:
            common &= mask
        before[index] = common
    return before


def _before_root(
    sources: Sequence[int],
    owner: Sequence[int],
    before: Sequence[int],
    ranges: Sequence[range],
    has_follower: Sequence[bool],
) -> int:
    """The operators that come wholly before a node: those before its sources, and those of which
    it follows all last nodes."""
    mask = 0
    for operator in {owner[source] for source in sources}:
        last = {node for node in ranges[operator] if not has_follower[node]}
        mask |= before[operator]
        if last <= set(sources):
            mask |= 1 << operator
    return mask


def _by_block(addresses: Sequence[tuple[Access, ...]]) -> list[tuple[Access, ...]]:
    """The same with a storage for each stretch of memory that accesses join."""
    spans = sorted({(access.begin, access.end) for own in addresses for access in own})
    block_of: dict[tuple[int, int], int] = {}
    block, reaches = -1, -1
    for begin, end in spans:
        if begin >= reaches:
            block += 1
        reaches = max(reaches, end)
        block_of[begin, end] = block
    return [
        tuple(
            replace(access, storage=block_of[access.begin, access.end])
            for access in own
            if access.begin < access.end
        )
        for own in addresses
    ]
