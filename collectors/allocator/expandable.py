"""Simulate torch's allocator with expandable segments.

Needs no torch; :mod:`collectors.allocator.history` records the allocations. Source:
c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from graphviz_dash.model.memory import DEFAULT_POOL

_GRAIN: Final = 512
_SMALL: Final = 1 << 20
"""Largest allocation of the small pool (kSmallSize)."""
_SMALL_PAGE: Final = 2 << 20
_LARGE_PAGE: Final = 20 << 20
_END: Final = 1 << 50
"""Size of a simulated range of addresses, larger than any memory."""

Key = tuple[tuple[int, int], int, bool]
"""Pool, stream, and True for small allocations."""


@dataclass(eq=False)
class Block:
    """A part of a range."""

    start: int
    size: int
    has_memory: bool
    is_live: bool = False
    before: Block | None = None
    after: Block | None = None

    @property
    def end(self) -> int:
        """Address after the last byte."""
        return self.start + self.size

    @property
    def possible_size(self) -> int:
        """Size with the addresses behind it that have no memory yet."""
        gap = self.after
        return self.size + (gap.size if gap is not None and not gap.has_memory else 0)


class Range:
    """The addresses of one pool, stream and class of sizes, covered by a chain of blocks."""

    def __init__(self, page: int) -> None:
        self._page = page
        self._free: list[tuple[int, int, Block]] = []
        """Size, start and block of each free block with memory, sorted."""
        self._gaps: list[tuple[int, Block]] = []
        """Start and block of each block without memory, sorted."""
        self.mapped_bytes = 0
        self._add(Block(0, _END, has_memory=False))

    def allocate(self, size: int) -> Block:
        """Allocate in the best free block, else map more pages at the lowest addresses."""
        block = self._find_free(size) or self._map(size)
        self._discard(block)
        self._cut(block, size)
        block.is_live = True
        return block

    def free(self, block: Block) -> None:
        """Free a block and merge it with free neighbours."""
        block.is_live = False
        self._merge(block)

    def release(self) -> None:
        """Unmap the complete pages of free blocks."""
        for _, _, block in tuple(self._free):
            begin = -(-block.start // self._page) * self._page
            end = block.end // self._page * self._page
            if begin >= end:
                continue
            self._discard(block)
            self._cut(block, end - block.start)
            pages = block
            if begin > block.start:
                pages = self._split(block, begin - block.start)
                self._add(block)
            pages.has_memory = False
            self.mapped_bytes -= pages.size
            self._merge(pages)

    def _find_free(self, size: int) -> Block | None:
        number = bisect_left(self._free, (size,))
        if number == len(self._free):
            return None
        best = self._free[number][2]
        for _, _, block in islice(self._free, number + 1, None):
            if block.possible_size >= best.possible_size:
                break
            best = block
        return best

    def _map(self, size: int) -> Block:
        for _, gap in self._gaps:
            first = gap
            if gap.before is not None and not gap.before.is_live:
                first = gap.before
            available, block = 0, first
            while available < size and not block.is_live:
                available += block.size
                if block.after is None:
                    break
                block = block.after
            if available >= size:
                return self._map_from(first, size)
        raise AssertionError("the last block of a range is endless")

    def _map_from(self, block: Block, size: int) -> Block:
        """Map pages from ``block`` on until it has ``size`` bytes."""
        while not block.has_memory or block.size < size:
            gap = block
            missing = size
            if block.has_memory and block.after is not None:
                gap, missing = block.after, size - block.size
            self._discard(gap)
            end = -(-(gap.start + min(missing, gap.size)) // self._page) * self._page
            self._cut(gap, min(end - gap.start, gap.size))
            gap.has_memory = True
            self.mapped_bytes += gap.size
            block = self._merge(gap)
        return block

    def _cut(self, block: Block, size: int) -> None:
        """Reduce an unlisted block to ``size``; the rest becomes a free block of its kind."""
        if block.size > size:
            self._add(self._split(block, size))

    def _split(self, block: Block, size: int) -> Block:
        """Split a block after ``size`` bytes. Return the second part."""
        rest = Block(
            block.start + size, block.size - size, block.has_memory, False, block, block.after
        )
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        return rest

    def _merge(self, block: Block) -> Block:
        """Merge an unlisted block that is not live with equal neighbours, and list it."""
        before, after = block.before, block.after
        if after is not None and not after.is_live and after.has_memory == block.has_memory:
            self._discard(after)
            self._join(block, after)
        if before is not None and not before.is_live and before.has_memory == block.has_memory:
            self._discard(before)
            self._join(before, block)
            block = before
        self._add(block)
        return block

    def _join(self, first: Block, second: Block) -> None:
        first.size += second.size
        first.after = second.after
        if first.after is not None:
            first.after.before = first

    def _add(self, block: Block) -> None:
        if block.has_memory:
            insort(self._free, (block.size, block.start, block))
        else:
            insort(self._gaps, (block.start, block))

    def _discard(self, block: Block) -> None:
        if block.has_memory:
            del self._free[bisect_left(self._free, (block.size, block.start))]
        else:
            del self._gaps[bisect_left(self._gaps, (block.start,))]


class ExpandableAllocator:
    """Places allocations as torch's allocator does with expandable segments."""

    def __init__(self) -> None:
        self._ranges: dict[Key, Range] = {}
        self._live: dict[int, tuple[Range, Block]] = {}

    @property
    def mapped_bytes(self) -> int:
        """Reserved memory."""
        return sum(part.mapped_bytes for part in self._ranges.values())

    @property
    def live_addresses(self) -> set[int]:
        """Addresses of the live allocations in the native allocator."""
        return set(self._live)

    def allocate(self, address: int, size: int, stream: int, pool: tuple[int, int]) -> None:
        """Allocate the block that is at ``address`` in the native allocator."""
        size = max(-(-size // _GRAIN), 1) * _GRAIN
        is_small = size <= _SMALL
        key = pool, stream, is_small
        if key not in self._ranges:
            self._ranges[key] = Range(_SMALL_PAGE if is_small else _LARGE_PAGE)
        part = self._ranges[key]
        self._live[address] = part, part.allocate(size)

    def free(self, address: int) -> None:
        """Free the block that is at ``address`` in the native allocator."""
        if address in self._live:
            part, block = self._live.pop(address)
            part.free(block)

    def release(self) -> None:
        """Unmap free pages outside private pools."""
        for (pool, _, _), part in self._ranges.items():
            if pool == DEFAULT_POOL:
                part.release()


class Segments:
    """Segments of the native allocator, to find the pool of an address.

    Private pools keep their segments. The driver may return the address of a released segment
    again, for another pool.
    """

    def __init__(
        self, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
    ) -> None:
        self._last = {segment["address"]: _get_pool(segment) for segment in after}
        self._pools = {segment["address"]: _get_pool(segment) for segment in before}
        self._starts = sorted(self._pools)

    def add(self, address: int, *, is_permanent: bool) -> None:
        """Add a segment. A permanent one is in the last state."""
        self.remove(address)
        self._pools[address] = (
            self._last.get(address, DEFAULT_POOL) if is_permanent else DEFAULT_POOL
        )
        insort(self._starts, address)

    def remove(self, address: int) -> None:
        """Remove a segment, if it exists."""
        if self._pools.pop(address, None) is not None:
            self._starts.remove(address)

    def find(self, address: int) -> tuple[int, int]:
        """Return the pool of an address."""
        number = bisect_right(self._starts, address) - 1
        return self._pools[self._starts[number]] if number >= 0 else DEFAULT_POOL


def _get_pool(segment: Mapping[str, Any]) -> tuple[int, int]:
    first, second = segment["segment_pool_id"]
    return int(first), int(second)


class AllocatorEvent(NamedTuple):
    """An event of the allocator's trace."""

    action: str
    address: int
    size: int
    """Bytes, as requested."""
    stream: int
    """Handle of the stream."""


class AllocationHistory(NamedTuple):
    """Allocations of a period, as in ``torch.cuda.memory._snapshot()``."""

    before: Sequence[Mapping[str, Any]]
    """Segments at its start."""
    events: Sequence[AllocatorEvent]
    """All events, in order."""
    after: Sequence[Mapping[str, Any]]
    """Segments at its end."""


def predict_saving(history: AllocationHistory) -> int | None:
    """Predict the reserved bytes that expandable segments save at the end of ``history``.

    Negative if they need more. None if the history lacks events.
    """
    allocator = simulate(history)
    live = {address for address, *_ in _list_live_blocks(history.after)}
    if live != allocator.live_addresses:
        return None
    size = sum(int(segment["total_size"]) for segment in history.after)
    return size - allocator.mapped_bytes


def simulate(history: AllocationHistory) -> ExpandableAllocator:
    """Place the first live allocations by address, then follow the events."""
    allocator = ExpandableAllocator()
    for address, size, stream, pool in _list_live_blocks(history.before):
        allocator.allocate(address, size, stream, pool)
    _place_free_segments(allocator, history.before)
    releasing = False
    for event, pool in follow_pools(history):
        if event.action == "alloc":
            allocator.allocate(event.address, event.size, event.stream, pool)
        elif event.action == "free_completed":
            allocator.free(event.address)
        elif event.action == "segment_free" and not releasing:
            allocator.release()
        releasing = event.action == "segment_free"
    return allocator


def follow_pools(
    history: AllocationHistory,
) -> Iterator[tuple[AllocatorEvent, tuple[int, int]]]:
    """Return each event with the pool of its address."""
    segments = Segments(history.before, history.after)
    last_release = {
        event.address: number
        for number, event in enumerate(history.events)
        if event.action == "segment_free"
    }
    for number, event in enumerate(history.events):
        if event.action == "segment_alloc":
            is_permanent = last_release.get(event.address, -1) < number
            segments.add(event.address, is_permanent=is_permanent)
        yield event, segments.find(event.address)
        if event.action == "segment_free":
            segments.remove(event.address)


def _place_free_segments(
    allocator: ExpandableAllocator, segments: Sequence[Mapping[str, Any]]
) -> None:
    """Add memory that the allocator had cached in segments without a live block."""
    live = {address for address, *_ in _list_live_blocks(segments)}
    free_segments = [
        segment
        for segment in segments
        if not any(
            segment["address"] <= address < segment["address"] + segment["total_size"]
            for address in live
        )
    ]
    for segment in free_segments:
        allocator.allocate(
            segment["address"], segment["total_size"], segment["stream"], _get_pool(segment)
        )
    for segment in free_segments:
        allocator.free(segment["address"])


def _list_live_blocks(
    segments: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[int, int, int, tuple[int, int]]]:
    for segment in sorted(segments, key=lambda segment: int(segment["address"])):
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"].startswith("active"):
                yield address, block["requested_size"], segment["stream"], _get_pool(segment)
            address += block["size"]
