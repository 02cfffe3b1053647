"""Find memory from outside the step that operators access without showing it.

Custom operators and directly launched kernels may keep such memory, which appears among kernel
arguments. It is restored and compared like other memory. Memory outside torch's allocator stays
unknown.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from collectors.driver.operands import AllocationResolver, Extent
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.parallel import Access, Operator, Storage
from graphviz_dash.planning.proof import compute_node_ranges


class MemoryBlock(Protocol):
    """A torch storage or a substitute."""

    def data_ptr(self) -> int:
        """Return the first address."""

    def nbytes(self) -> int:
        """Return the size in bytes."""


def may_access_hidden_memory(operator: Operator) -> bool:
    """Check if an operator with nodes may access memory that its arguments do not show."""
    return operator.opaque and operator.nodes > 0 and not operator.is_collective


def find_hidden_extents(
    operators: Sequence[Operator],
    graphs: Sequence[CapturedGraph],
    resolver: AllocationResolver,
    blocks: Container[Extent],
) -> dict[Extent, list[int]]:
    """Return the ``blocks`` that operators may access without showing it, with operator indices.

    ``graphs`` are the step's graph and its bodies with operands resolved by ``resolver``;
    ``blocks`` are extents in use outside the capture.
    """
    operator_of_node = {
        node: index
        for index, nodes in enumerate(compute_node_ranges(operators))
        if may_access_hidden_memory(operators[index])
        for node in nodes
    }
    reached: dict[Extent, set[int]] = {}
    for graph in graphs:
        # A body's id starts with the graph's id and the index of the containing node.
        _, *holders = graph.id.split(".")
        for node in graph.nodes:
            index = operator_of_node.get(int(holders[0]) if holders else node.index)
            if index is None:
                continue
            for operand in node.operands or ():
                extent = resolver.get_extent(operand)
                if extent in blocks:
                    reached.setdefault(extent, set()).add(index)
    return {extent: sorted(indices) for extent, indices in sorted(reached.items())}


def add_hidden_accesses(
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    outside: Mapping[int, MemoryBlock],
    reached: Mapping[Extent, Sequence[int]],
) -> tuple[list[Operator], list[Storage], dict[int, Extent]]:
    """Add possible writes to the ``reached`` memory.

    Returns operators, storages, and the extents of new storages by number.
    """
    changed, extended = list(operators), list(storages)
    unknown: dict[int, Extent] = {}
    for (begin, end), indices in reached.items():
        number = next(
            (key for key, memory in outside.items() if begin <= memory.data_ptr() < end), None
        )
        size = end - begin if number is None else outside[number].nbytes()
        if number is None:
            number = len(extended)
            extended.append(Storage(size, (size,), "uint8", None))
            unknown[number] = (begin, end)
        for index in indices:
            accesses = changed[index].accesses
            if all(access.storage != number for access in accesses):
                more = (*accesses, Access(number, 0, size, writes=True))
                changed[index] = replace(changed[index], accesses=more)
    return changed, extended, unknown
