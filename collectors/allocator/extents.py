"""Interpret allocator events. Needs no torch; :mod:`collectors.allocator.history` reads them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphviz_dash.model.memory import DEFAULT_POOL, Extent, GraphMemory, Owner, PoolId


@dataclass(frozen=True)
class Segment:
    """A range of device memory reserved by the allocator."""

    start: int
    end: int
    """Address after the last byte."""
    pool: tuple[int, int]
    live: tuple[tuple[int, int], ...]
    """Address and size in bytes of each block in use."""


class SegmentIndex:
    """Finds the segment of an address."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.start)
        self._begins = [segment.start for segment in self._segments]

    def find(self, address: int) -> Segment | None:
        """Return the segment that contains ``address``, or None."""
        index = bisect_right(self._begins, address) - 1
        if index < 0 or address >= self._segments[index].end:
            return None
        return self._segments[index]


@dataclass(frozen=True)
class Event:
    """An allocation (``size`` as rounded by the allocator) or a free."""

    is_free: bool
    address: int
    size: int


@dataclass(frozen=True)
class Block:
    """A live allocation."""

    address: int
    size: int
    """Bytes, as rounded by the allocator."""
    pool: PoolId
    owner: Owner


def find_blocks_at_peak(
    before: dict[int, Block],
    after: dict[int, Block],
    events: Sequence[Event],
    segments: SegmentIndex,
) -> list[Block]:
    """Return the live blocks at the peak between ``before`` and ``after``.

    Blocks live at the end have their final owner. Others are transient unless in ``before``.
    """
    live = {address: block.size for address, block in before.items()}
    total = maximum = sum(live.values())
    highest = 0
    for number, event in enumerate(events):
        if event.is_free:
            total -= live.pop(event.address, 0)
        else:
            live[event.address] = event.size
            total += event.size
        if total > maximum:
            maximum, highest = total, number + 1
    peak_blocks = dict(before)
    for event in events[:highest]:
        if event.is_free:
            peak_blocks.pop(event.address, None)
        else:
            segment = segments.find(event.address)
            pool = segment.pool if segment else DEFAULT_POOL
            peak_blocks[event.address] = Block(event.address, event.size, pool, Owner.TRANSIENT)
    freed_later = {event.address for event in events[highest:] if event.is_free}
    return [
        after[address]
        if block.owner is Owner.TRANSIENT and address in after and address not in freed_later
        else block
        for address, block in peak_blocks.items()
    ]


@dataclass
class Capture:
    """Allocations of one capture in private pools."""

    graph: str
    pool: PoolId | None
    """Pool of its allocations, or None if it allocated nothing."""
    allocations: int
    peak_bytes: int
    retained_bytes: int
    """Bytes still allocated at its end."""
    extents: list[tuple[int, int]]
    """Address ranges (start, end) allocated during the capture, merged."""
    instantiate_device_bytes: int | None = None
    """Growth of device memory during instantiation, or None."""

    def to_graph_memory(self, private: Sequence[Segment]) -> GraphMemory:
        """Convert to a ``GraphMemory`` with extents relative to segments in ``private``."""
        return GraphMemory(
            graph=self.graph,
            pool=self.pool,
            allocations=self.allocations,
            peak_bytes=self.peak_bytes,
            retained_bytes=self.retained_bytes,
            extents=tuple(
                Extent(
                    number,
                    max(begin, segment.start) - segment.start,
                    min(end, segment.end) - segment.start,
                )
                for number, segment in enumerate(private)
                for begin, end in self.extents
                if begin < segment.end and segment.start < end
            ),
            instantiate_device_bytes=self.instantiate_device_bytes,
        )


def summarize_capture(graph_id: str, events: Sequence[Event], segments: SegmentIndex) -> Capture:
    """Summarize the allocations of one capture in private pools."""
    alive: dict[int, int] = {}
    extents: list[tuple[int, int]] = []
    peak = current = 0
    pool: PoolId | None = None
    for event in events:
        if event.is_free:
            current -= alive.pop(event.address, 0)
            continue
        segment = segments.find(event.address)
        if segment is None or segment.pool == DEFAULT_POOL:
            continue
        pool = segment.pool
        alive[event.address] = event.size
        extents.append((event.address, event.address + event.size))
        current += event.size
        peak = max(peak, current)
    return Capture(graph_id, pool, len(extents), peak, current, merge_extents(extents))


def merge_extents(extents: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge half-open intervals into the fewest with the same addresses, in order."""
    result: list[tuple[int, int]] = []
    for begin, end in sorted(extents):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result
