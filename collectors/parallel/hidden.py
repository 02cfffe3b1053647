"""Memory from outside that a step reaches and that no operator shows: what custom operators and
kernels launched without one keep to themselves.

It stands among the arguments of their kernels in the captured graph. Known, it is put back after a
step was tried, and compared, like all other memory that a step changes. What lies outside torch's
allocator, or is reached by an address that lies in memory itself, stays unknown.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from collectors.driver.operands import Extent, Reach
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.parallel import Access, Operator, Storage
from graphviz_dash.planning.proof import node_ranges


class Memory(Protocol):
    """A storage of torch's, or what stands for one."""

    def data_ptr(self) -> int:
        """Its first address."""

    def nbytes(self) -> int:
        """Its size."""


def may_hide(operator: Operator) -> bool:
    """Whether an operator with nodes may reach what its arguments do not show. Collectives reach
    the buffers of their library, in which ranks tell each other how far they are."""
    return operator.opaque and operator.nodes > 0 and not operator.is_collective


def hidden_extents(
    operators: Sequence[Operator],
    graphs: Sequence[CapturedGraph],
    reach: Reach,
    blocks: Container[Extent],
) -> dict[Extent, list[int]]:
    """Which of ``blocks`` are reached by operators that may hide it, by their indices.

    Args:
        operators: those of the step.
        graphs: its graph and after it the bodies in it, with operands by ``reach``.
        reach: what found the operands.
        blocks: where memory from outside the capture is in use.
    """
    own = {
        node: index
        for index, nodes in enumerate(node_ranges(operators))
        if may_hide(operators[index])
        for node in nodes
    }
    reached: dict[Extent, set[int]] = {}
    for graph in graphs:
        # A body's id begins with that of the graph and the index of the node that holds it.
        _, *holders = graph.id.split(".")
        for node in graph.nodes:
            index = own.get(int(holders[0]) if holders else node.index)
            if index is None:
                continue
            for operand in node.operands or ():
                extent = reach.extent(operand)
                if extent in blocks:
                    reached.setdefault(extent, set()).add(index)
    return {extent: sorted(indices) for extent, indices in sorted(reached.items())}


def with_hidden(
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    outside: Mapping[int, Memory],
    reached: Mapping[Extent, Sequence[int]],
) -> tuple[list[Operator], list[Storage], dict[int, Extent]]:
    """The operators and storages with the memory that was ``reached``, as if operators might write
    it that were not given it; and by the number of its storage what no operator was given."""
    changed, extended = list(operators), list(storages)
    unknown: dict[int, Extent] = {}
    for (begin, end), indices in reached.items():
        number = next(
            (each for each, memory in outside.items() if begin <= memory.data_ptr() < end), None
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
