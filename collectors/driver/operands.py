"""Resolve the addresses in node arguments to the allocations that contain them.

Needs neither driver nor torch. Results contain allocation numbers and offsets, not addresses.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from collectors.allocator.extents import Event, Segment, SegmentIndex
from graphviz_dash.model.graph import Operand

Extent: TypeAlias = tuple[int, int]
"""Start and end address; the end is exclusive."""

_ADDRESS_BYTES: Final = 8
_LOWEST: Final = 1 << 32
_HIGHEST: Final = 1 << 57
"""Device addresses are above the 32-bit range and have at most 57 bits."""


def find_addresses(arguments: bytes) -> list[int]:
    """Return possible addresses in kernel arguments, unique and in order.

    Checks every 8 bytes at multiples of 4, since arguments may be structures. Accesses may be
    overestimated, never underestimated.
    """
    addresses: dict[int, None] = {}
    for begin in (0, 4):
        count = max(0, len(arguments) - begin) // 8
        for word in struct.unpack_from(f"<{count}Q", arguments, min(begin, len(arguments))):
            if _LOWEST <= word < _HIGHEST:
                addresses[word] = None
    return list(addresses)


def find_argument(parameters: Sequence[bytes], begin: int, end: int) -> int | None:
    """Return the position of the first kernel argument with an address in an extent, or None."""
    return next(
        (
            number
            for number, value in enumerate(parameters)
            if any(begin <= address < end for address in find_addresses(value))
        ),
        None,
    )


def find_invalid_arguments(
    parameters: Sequence[bytes], has_allocation: Callable[[int], bool]
) -> list[tuple[int, int]]:
    """Return position and value of the arguments that may be invalid addresses.

    These have the size of an address and are in no allocation. Zero is omitted: it is a common
    default. A count of 64 bits looks the same.
    """
    values = (
        (number, struct.unpack("<Q", value)[0])
        for number, value in enumerate(parameters)
        if len(value) == _ADDRESS_BYTES
    )
    return [(number, value) for number, value in values if value and not has_allocation(value)]


def list_live_extents(before: Iterable[Segment], events: Iterable[Event]) -> list[Extent]:
    """Return every allocation that was live at any time."""
    old = [(begin, begin + size) for segment in before for begin, size in segment.live]
    new = [(event.address, event.address + event.size) for event in events if not event.is_free]
    return sorted({*old, *new})


class AllocationResolver:
    """Resolves addresses to accessible memory.

    ``segments`` and ``blocks`` are the allocator's; ``query_driver`` returns the extent of any
    other allocation, or None.
    """

    def __init__(
        self,
        segments: Iterable[Segment],
        blocks: Iterable[Extent],
        query_driver: Callable[[int], Extent | None],
    ) -> None:
        self._segments = SegmentIndex(segments)
        self._blocks = sorted(blocks)
        self._begins = [begin for begin, _ in self._blocks]
        self._furthest = list(accumulate((end for _, end in self._blocks), max))
        self._query_driver = query_driver
        self._graph_allocations: dict[int, Extent] = {}
        self._numbers: dict[int, int] = {}
        self._resolved: dict[int, Operand | None] = {}

    def add_graph_allocation(self, address: int, size: int) -> None:
        """Register memory allocated by a node of the graph."""
        self._graph_allocations[address] = (address, address + size)
        self._resolved.clear()

    def resolve(self, address: int) -> Operand | None:
        """Return the memory accessible through ``address``, or None if it is not an address.

        Covers all allocations that held the address during the capture, or the whole segment.
        """
        if address not in self._resolved:
            self._resolved[address] = self._find(address)
        return self._resolved[address]

    def get_extent(self, operand: Operand) -> Extent:
        """Return the extent of a resolved operand."""
        base = list(self._numbers)[operand.allocation]
        return base + operand.offset, base + operand.offset + operand.bytes

    def _find(self, address: int) -> Operand | None:
        segment = self._segments.find(address)
        if segment is not None:
            begin, end = self._find_overlapping(address) or (segment.start, segment.end)
            return self._number_operand(segment.start, begin, end)
        for begin, end in self._graph_allocations.values():
            if begin <= address < end:
                return self._number_operand(begin, begin, end)
        extent = self._query_driver(address)
        return None if extent is None else self._number_operand(extent[0], *extent)

    def _find_overlapping(self, address: int) -> Extent | None:
        index = bisect_right(self._begins, address) - 1
        low = high = address
        while index >= 0 and self._furthest[index] > address:
            begin, end = self._blocks[index]
            if end > address:
                low, high = min(low, begin), max(high, end)
            index -= 1
        return (low, high) if high > low else None

    def _number_operand(self, base: int, begin: int, end: int) -> Operand:
        number = self._numbers.setdefault(base, len(self._numbers))
        return Operand(number, begin - base, end - begin)


def merge_operands(operands: Iterable[Operand]) -> tuple[Operand, ...]:
    """Sort operands and merge overlapping ones."""
    result: list[Operand] = []
    for operand in sorted(operands, key=lambda item: (item.allocation, item.offset, item.bytes)):
        last = result[-1] if result else None
        if (
            last is not None
            and last.allocation == operand.allocation
            and operand.offset < last.offset + last.bytes
        ):
            end = max(last.offset + last.bytes, operand.offset + operand.bytes)
            result[-1] = Operand(last.allocation, last.offset, end - last.offset)
        else:
            result.append(operand)
    return tuple(result)
