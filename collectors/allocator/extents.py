"""What the events of an allocator mean: who was alive when, and which places a capture took.

Nothing here asks torch: :mod:`collectors.allocator.history` reads the facts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphviz_dash.model.memory import DEFAULT_POOL, Extent, GraphMemory, Owner, PoolId


@dataclass(frozen=True)
class Segment:
    """Memory that the allocator holds from the device."""

    begin: int
    """Its first address."""
    end: int
    """The address behind its last byte."""
    pool: tuple[int, int]
    """The allocator's id of the pool that it belongs to."""
    live: tuple[tuple[int, int], ...]
    """Address and size in bytes of each block that is in use."""


class SegmentIndex:
    """Finds the segment of an address."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.begin)
        self._begins = [segment.begin for segment in self._segments]

    def of(self, address: int) -> Segment | None:
        """The segment that holds ``address``; None if it lies in none."""
        index = bisect_right(self._begins, address) - 1
        if index < 0 or address >= self._segments[index].end:
            return None
        return self._segments[index]


@dataclass(frozen=True)
class Event:
    """An allocation (``size`` as the allocator rounds it) or the free of one."""

    frees: bool
    address: int
    size: int


@dataclass(frozen=True)
class Block:
    """A live allocation."""

    address: int
    """Where it begins."""
    size: int
    """In bytes, as the allocator rounds it."""
    pool: PoolId
    """The pool that it was allocated from."""
    owner: Owner
    """Whose it is."""


def at_peak(
    before: dict[int, Block], after: dict[int, Block], events: Sequence[Event], places: SegmentIndex
) -> list[Block]:
    """The blocks that were alive when most bytes were, between ``before`` and ``after``.

    A block of then that is alive at the end is what it is there; one that was freed since is
    transient, or what it was before, if it was there already.
    """
    live = {address: block.size for address, block in before.items()}
    total = most = sum(live.values())
    highest = 0
    for number, event in enumerate(events):
        if event.frees:
            total -= live.pop(event.address, 0)
        else:
            live[event.address] = event.size
            total += event.size
        if total > most:
            most, highest = total, number + 1
    then = dict(before)
    for event in events[:highest]:
        if event.frees:
            then.pop(event.address, None)
        else:
            segment = places.of(event.address)
            pool = segment.pool if segment else DEFAULT_POOL
            then[event.address] = Block(event.address, event.size, pool, Owner.TRANSIENT)
    gone = {event.address for event in events[highest:] if event.frees}
    return [
        after[address]
        if block.owner is Owner.TRANSIENT and address in after and address not in gone
        else block
        for address, block in then.items()
    ]


@dataclass
class Capture:
    """What one capture allocated in private pools, by address."""

    graph: str
    """The id of the captured graph."""
    pool: PoolId | None
    """The pool that its allocations came from; None where it allocated nothing."""
    allocations: int
    """How many there were."""
    peak_bytes: int
    """Most bytes of its own allocations alive at once."""
    kept_bytes: int
    """Bytes of its own that were alive when it ended."""
    extents: list[tuple[int, int]]
    """Addresses, begin and end, that were allocated at some time of the capture, merged."""
    instantiate_device_bytes: int | None = None
    """Growth of device memory while the graph was instantiated; None where it never was."""

    def memory_in(self, private: Sequence[Segment]) -> GraphMemory:
        """With its extents as places in ``private``."""
        return GraphMemory(
            graph=self.graph,
            pool=self.pool,
            allocations=self.allocations,
            peak_bytes=self.peak_bytes,
            kept_bytes=self.kept_bytes,
            extents=tuple(
                Extent(
                    number,
                    max(begin, segment.begin) - segment.begin,
                    min(end, segment.end) - segment.begin,
                )
                for number, segment in enumerate(private)
                for begin, end in self.extents
                if begin < segment.end and segment.begin < end
            ),
            instantiate_device_bytes=self.instantiate_device_bytes,
        )


def allocated(graph_id: str, events: Sequence[Event], places: SegmentIndex) -> Capture:
    """What ``events`` of one capture allocated in private pools."""
    alive: dict[int, int] = {}
    extents: list[tuple[int, int]] = []
    peak = now = 0
    pool: PoolId | None = None
    for event in events:
        if event.frees:
            now -= alive.pop(event.address, 0)
            continue
        segment = places.of(event.address)
        if segment is None or segment.pool == DEFAULT_POOL:
            continue
        pool = segment.pool
        alive[event.address] = event.size
        extents.append((event.address, event.address + event.size))
        now += event.size
        peak = max(peak, now)
    return Capture(graph_id, pool, len(extents), peak, now, merged(extents))


def merged(extents: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half-open intervals as the fewest that cover the same, in order."""
    result: list[tuple[int, int]] = []
    for begin, end in sorted(extents):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result
