"""Simulate a private pool of torch's caching allocator, which keeps all its segments.

Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11, with its default settings.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Final

GRAIN: Final = 512
"""Granularity of allocations, in bytes."""
_SMALL: Final = 1 << 20
"""Largest allocation of small segments (kSmallSize)."""
_SMALL_SEGMENT: Final = 2 << 20
_LARGE_SEGMENT: Final = 20 << 20
_MIN_LARGE: Final = 10 << 20
"""Smallest allocation with a segment of its size (kMinLargeAlloc)."""


@dataclass(eq=False)
class PoolBlock:
    """A part of a segment."""

    start: int
    """Address: segments follow each other in the order of their creation."""
    size: int
    is_small: bool
    is_live: bool = True
    before: PoolBlock | None = None
    after: PoolBlock | None = None


class PrivatePool:
    """A pool of one stream."""

    def __init__(self) -> None:
        self.reserved_bytes = 0
        """Sum of the segments."""
        self._free: dict[bool, list[tuple[int, int, PoolBlock]]] = {True: [], False: []}
        """Size, start and block of each free block, sorted, by class of sizes."""
        self._segments: list[PoolBlock] = []
        """First block of each segment."""

    def list_blocks(self) -> list[PoolBlock]:
        """List the blocks by address."""
        blocks = []
        for first in self._segments:
            block: PoolBlock | None = first
            while block is not None:
                blocks.append(block)
                block = block.after
        return blocks

    def copy(self) -> tuple[PrivatePool, dict[PoolBlock, PoolBlock]]:
        """Copy the pool; also return the copy of each block."""
        other, copies = PrivatePool(), {}
        other.reserved_bytes = self.reserved_bytes
        last: PoolBlock | None = None
        for block in self.list_blocks():
            before = None if block.before is None else last
            last = PoolBlock(block.start, block.size, block.is_small, block.is_live, before)
            if before is None:
                other._segments.append(last)
            else:
                before.after = last
            copies[block] = last
        for is_small, free in self._free.items():
            other._free[is_small] = [(size, start, copies[block]) for size, start, block in free]
        return other, copies

    def allocate(self, size: int) -> PoolBlock:
        """Allocate in the smallest free block of sufficient size, or in a new segment."""
        size = max(-(-size // GRAIN), 1) * GRAIN
        is_small = size <= _SMALL
        free = self._free[is_small]
        number = bisect_left(free, (size,))
        block = free.pop(number)[2] if number < len(free) else self._add_segment(size, is_small)
        block.is_live = True
        remaining = block.size - size
        if remaining >= GRAIN if is_small else remaining > _SMALL:
            rest = PoolBlock(block.start + size, remaining, is_small, False, block, block.after)
            if block.after is not None:
                block.after.before = rest
            block.after, block.size = rest, size
            self._add(rest)
        return block

    def free(self, block: PoolBlock) -> None:
        """Free a block and merge it with the free blocks before and after it."""
        block.is_live = False
        for first, second in ((block, block.after), (block.before, block)):
            if first is None or second is None or first.is_live or second.is_live:
                continue
            other = second if first is block else first
            self._discard(other)
            first.size += second.size
            first.after = second.after
            if first.after is not None:
                first.after.before = first
            block = first
        self._add(block)

    def _add_segment(self, size: int, is_small: bool) -> PoolBlock:
        if is_small:
            segment = _SMALL_SEGMENT
        elif size < _MIN_LARGE:
            segment = _LARGE_SEGMENT
        else:
            segment = -(-size // _SMALL_SEGMENT) * _SMALL_SEGMENT
        block = PoolBlock(self.reserved_bytes, segment, is_small)
        self._segments.append(block)
        self.reserved_bytes += segment
        return block

    def _add(self, block: PoolBlock) -> None:
        insort(self._free[block.is_small], (block.size, block.start, block))

    def _discard(self, block: PoolBlock) -> None:
        free = self._free[block.is_small]
        del free[bisect_left(free, (block.size, block.start))]
