"""Which memory a node may reach: the addresses among its arguments, and the allocations that hold
them.

Nothing here asks the driver or torch: :mod:`collectors.driver.node_operands` and
:mod:`collectors.allocator.history` read the facts. Addresses stay here: what leaves are numbers of
allocations and places in them.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final, TypeAlias

from collectors.allocator.extents import Event, Segment, SegmentIndex
from graphviz_dash.model.graph import Operand

Extent: TypeAlias = tuple[int, int]
"""Addresses from the first to before the second."""

_LOWEST: Final = 1 << 32
_HIGHEST: Final = 1 << 57
"""Device addresses lie above what a 32-bit process could reach, and have 57 bits at the most."""


def addresses_in(arguments: bytes) -> list[int]:
    """The numbers in a kernel's arguments that could be addresses, each once, in order.

    Arguments are structures as often as pointers, so every 8 bytes at every multiple of 4 are
    looked at. A number that is no address costs a question, and is taken for none unless it lies in
    an allocation: then it makes a node seem to reach more than it does, never less.
    """
    addresses: dict[int, None] = {}
    for begin in (0, 4):
        count = max(0, len(arguments) - begin) // 8
        for word in struct.unpack_from(f"<{count}Q", arguments, min(begin, len(arguments))):
            if _LOWEST <= word < _HIGHEST:
                addresses[word] = None
    return list(addresses)


def lived(before: Iterable[Segment], events: Iterable[Event]) -> list[Extent]:
    """Every allocation that was alive at some time: those of ``before``, and what was allocated
    since."""
    old = [(begin, begin + size) for segment in before for begin, size in segment.live]
    new = [(event.address, event.address + event.size) for event in events if not event.frees]
    return sorted({*old, *new})


class Reach:
    """Finds what an address gives access to.

    ``held`` are the allocator's segments, ``blocks`` the allocations in them (see :func:`lived`).
    ``ask`` gives the extent of any other allocation that the driver knows, None for an address that
    it does not know. Allocations are numbered as they are first seen.
    """

    def __init__(
        self,
        held: Iterable[Segment],
        blocks: Iterable[Extent],
        ask: Callable[[int], Extent | None],
    ) -> None:
        self._places = SegmentIndex(held)
        self._blocks = sorted(blocks)
        self._begins = [begin for begin, _ in self._blocks]
        self._furthest = list(accumulate((end for _, end in self._blocks), max))
        self._ask = ask
        self._own: dict[int, Extent] = {}
        self._numbers: dict[int, int] = {}
        self._known: dict[int, Operand | None] = {}

    def allocate(self, address: int, size: int) -> None:
        """A node of the graph allocates memory at ``address``."""
        self._own[address] = (address, address + size)
        self._known.clear()

    def operand(self, address: int) -> Operand | None:
        """What a node that is given ``address`` may reach; None for what is no address.

        The same memory serves one tensor after another, so it is all allocations that held the
        address at some time of the capture, and the whole segment where none did.
        """
        if address not in self._known:
            self._known[address] = self._find(address)
        return self._known[address]

    def extent(self, operand: Operand) -> Extent:
        """Where an operand lies, which this found."""
        base = list(self._numbers)[operand.allocation]
        return base + operand.offset, base + operand.offset + operand.bytes

    def _find(self, address: int) -> Operand | None:
        segment = self._places.of(address)
        if segment is not None:
            begin, end = self._around(address) or (segment.begin, segment.end)
            return self._numbered(segment.begin, begin, end)
        for begin, end in self._own.values():
            if begin <= address < end:
                return self._numbered(begin, begin, end)
        extent = self._ask(address)
        return None if extent is None else self._numbered(extent[0], *extent)

    def _around(self, address: int) -> Extent | None:
        """From the first begin to the last end of all blocks that hold ``address``."""
        index = bisect_right(self._begins, address) - 1
        low = high = address
        while index >= 0 and self._furthest[index] > address:
            begin, end = self._blocks[index]
            if end > address:
                low, high = min(low, begin), max(high, end)
            index -= 1
        return (low, high) if high > low else None

    def _numbered(self, base: int, begin: int, end: int) -> Operand:
        number = self._numbers.setdefault(base, len(self._numbers))
        return Operand(number, begin - base, end - begin)


def merged_operands(operands: Iterable[Operand]) -> tuple[Operand, ...]:
    """The operands in order, those that overlap as one."""
    result: list[Operand] = []
    for operand in sorted(operands, key=lambda each: (each.allocation, each.offset, each.bytes)):
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
