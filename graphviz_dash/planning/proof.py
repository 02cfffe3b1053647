"""Proof that a captured graph orders all operators that share memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.parallel import Access, Operator
from graphviz_dash.planning.operators import find_dependencies


def compute_node_ranges(operators: Sequence[Operator]) -> list[range]:
    """Compute the node indices of each operator. A capture creates nodes in program order."""
    ends = list(accumulate(operator.nodes for operator in operators))
    return [range(end - operator.nodes, end) for operator, end in zip(operators, ends, strict=True)]


_WORK_KINDS: Final = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)


def remove_bookkeeping(
    operators: Sequence[Operator], graph: CapturedGraph
) -> tuple[list[Operator], list[tuple[int, int]]]:
    """Remove the bookkeeping nodes of a collectives library from operators and edges (source,
    target).

    These are event records without followers, event waits without predecessors, and host calls.
    Predecessors of a removed node become predecessors of its followers.
    """
    dropped = {
        node
        for operator, nodes in zip(operators, compute_node_ranges(operators), strict=True)
        if operator.is_collective
        for node in nodes
        if graph.nodes[node].kind not in _WORK_KINDS
    }
    number: dict[int, int] = {}
    predecessors: list[set[int]] = [set() for _ in graph.nodes]
    for edge in graph.edges:
        predecessors[edge.target].add(edge.source)
    # Nodes depend on lower indices only, so the predecessors of a node are complete here.
    for node in range(len(predecessors)):
        for source in predecessors[node] & dropped:
            predecessors[node] |= predecessors[source]
        predecessors[node] -= dropped
        if node not in dropped:
            number[node] = len(number)
    kept_operators = [
        replace(operator, nodes=sum(node in number for node in nodes))
        for operator, nodes in zip(operators, compute_node_ranges(operators), strict=True)
    ]
    edges = [(number[source], number[node]) for node in number for source in predecessors[node]]
    return kept_operators, sorted(edges)


def find_unjoined_operator(
    operators: Sequence[Operator], edges: Sequence[tuple[int, int]]
) -> int | None:
    """Find the first operator, on one stream, whose nodes do not all precede those of the next one.

    It launched work that the stream does not wait for. None if there is none.
    """
    before = _compute_ancestors(operators, edges)
    previous: int | None = None
    for index, operator in enumerate(operators):
        if operator.nodes:
            if previous is not None and not before[index] >> previous & 1:
                return previous
            previous = index
    return None


def find_unordered_pair(
    operators: Sequence[Operator],
    addresses: Sequence[tuple[Access, ...]],
    edges: Sequence[tuple[int, int]],
) -> tuple[int, int] | None:
    """Find two unordered operators that access the same memory, at least one writing. None if there
    are none.

    Args:
        operators: Operators of the step.
        addresses: Addresses accessed in this capture, which may reuse memory.
        edges: Edges of the captured graph, as node indices.
    """
    before = _compute_ancestors(operators, edges)
    resolved = [
        replace(operator, accesses=accesses)
        for operator, accesses in zip(operators, _group_by_block(addresses), strict=True)
    ]
    for target, needs in enumerate(find_dependencies(resolved)):
        for need in needs:
            if not before[target] >> need.source & 1:
                return need.source, target
    return None


def _compute_ancestors(
    operators: Sequence[Operator], edges: Sequence[tuple[int, int]]
) -> list[int]:
    """Compute a bit mask per operator: the operators that precede all of its nodes."""
    ranges = compute_node_ranges(operators)
    owner = [index for index, nodes in enumerate(ranges) for _ in nodes]
    internal_sources: list[list[int]] = [[] for _ in owner]
    has_follower = [False] * len(owner)
    sources: list[list[int]] = [[] for _ in owner]
    for source, target in edges:
        if owner[source] == owner[target]:
            internal_sources[target].append(source)
            has_follower[source] = True
        else:
            sources[target].append(source)
    before: list[int] = [0] * len(operators)
    for index, nodes in enumerate(ranges):
        roots = [node for node in nodes if not internal_sources[node]]
        masks = [
            _get_root_ancestors(sources[node], owner, before, ranges, has_follower)
            for node in roots
        ]
        common = masks[0] if masks else 0
        for mask in masks[1:]:
            common &= mask
        before[index] = common
    return before


def _get_root_ancestors(
    sources: Sequence[int],
    owner: Sequence[int],
    before: Sequence[int],
    ranges: Sequence[range],
    has_follower: Sequence[bool],
) -> int:
    """Compute the operators that precede a node completely."""
    mask = 0
    for operator in {owner[source] for source in sources}:
        final_nodes = {node for node in ranges[operator] if not has_follower[node]}
        mask |= before[operator]
        if final_nodes <= set(sources):
            mask |= 1 << operator
    return mask


def _group_by_block(addresses: Sequence[tuple[Access, ...]]) -> list[tuple[Access, ...]]:
    """Replace storages by contiguous memory ranges joined by overlapping accesses."""
    spans = sorted({(access.start, access.end) for accesses in addresses for access in accesses})
    block_of: dict[tuple[int, int], int] = {}
    block, block_end = -1, -1
    for start, end in spans:
        if start >= block_end:
            block += 1
        block_end = max(block_end, end)
        block_of[start, end] = block
    return [
        tuple(
            replace(access, storage=block_of[access.start, access.end])
            for access in accesses
            if access.start < access.end
        )
        for accesses in addresses
    ]
