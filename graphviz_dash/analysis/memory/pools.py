"""Private memory pools: bytes used by one graph, by several, or by none.

Graphs that share memory must not run concurrently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from graphviz_dash.model.memory import Owner

if TYPE_CHECKING:
    from graphviz_dash.model.memory import MemoryPass, PoolId

_MODEL_OWNERS: Final = frozenset({Owner.WEIGHTS, Owner.GRADIENTS, Owner.OPTIMIZER, Owner.BUFFERS})
"""Owners whose bytes count as theirs in any pool."""

NODE_BYTES: Final = 3_072
"""Device memory of one node of an executable, in bytes.

Source: evaluation/reports/2026-11-24-ladders.md, measured with torch 2.11 on H100 and H200."""


class ByteCategory(StrEnum):
    """Category of pool bytes."""

    EXCLUSIVE = "of one graph"
    SHARED = "shared"
    UNUSED = "unused"
    WORKSPACE = "library workspaces"
    MODEL = "the model's own tensors"


class SegmentSpan(Struct, frozen=True):
    """Bytes of one segment with the same graphs and the same owner."""

    segment: int
    """Index of the segment."""
    begin: int
    """Offset of the first byte in the segment."""
    end: int
    """Offset after the last byte."""
    graphs: tuple[str, ...]
    """Graphs that use it."""
    owner: Owner | None
    """Owner of a live allocation; None if there is none."""

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.end - self.begin

    @property
    def use(self) -> ByteCategory:
        """Category of the bytes."""
        if self.owner in _MODEL_OWNERS:
            return ByteCategory.MODEL
        if self.owner is Owner.UNOWNED:
            return ByteCategory.WORKSPACE
        if len(self.graphs) > 1:
            return ByteCategory.SHARED
        return ByteCategory.EXCLUSIVE if self.graphs else ByteCategory.UNUSED


class GraphFootprint(Struct, frozen=True):
    """Pool usage of one graph, in bytes."""

    graph: str
    """Id of the graph."""
    pool: PoolId | None
    """Id of its pool; None for a graph without one."""
    footprint: int
    """Total usage: ``exclusive`` plus ``shared``."""
    exclusive: int
    """Memory that no other graph uses."""
    shared: int
    """Memory that other graphs use too."""
    live_after_capture: int
    """Live memory at the end of the capture."""
    peak: int
    """Peak of live memory during the capture."""
    allocations: int
    """Number of allocations of the capture."""
    instantiate_device: int | None
    """Device memory used by its instantiation; None if not measured."""


class PoolBreakdown(Struct):
    """One private pool, in bytes; everything after ``graphs`` adds up to ``reserved``."""

    id: PoolId
    """Id of the pool."""
    segments: int = 0
    """Number of segments."""
    reserved: int = 0
    """Total size of the segments."""
    graphs: set[str] = field(default_factory=set)
    """Graphs that use it."""
    exclusive: int = 0
    """Used by one graph."""
    shared: int = 0
    """Used by several graphs."""
    unused: int = 0
    """Used by none."""
    workspaces: int = 0
    """Live allocations without a tensor."""
    owned: dict[Owner, int] = field(default_factory=lambda: defaultdict(int))
    """Live weights, gradients, optimizer state and buffers in the pool, by owner."""


def iter_segment_spans(memory_pass: MemoryPass) -> Iterator[SegmentSpan]:
    """Split all private pools into spans, by segment and offset, without gaps or overlaps."""
    edges: list[list[tuple[int, bool, str | Owner]]] = [[] for _ in memory_pass.segments]
    for graph in memory_pass.graphs:
        for extent in graph.extents:
            edges[extent.segment] += [
                (extent.start, True, graph.graph),
                (extent.end, False, graph.graph),
            ]
    for block in memory_pass.live_extents:
        edges[block.segment] += [(block.start, True, block.owner), (block.end, False, block.owner)]
    for number, segment in enumerate(memory_pass.segments):
        graphs: dict[str, None] = {}
        owner: Owner | None = None
        start = 0
        # Ends sort before starts at the same offset.
        for offset, opens, user in sorted(
            edges[number], key=lambda edge: (edge[0], edge[1], str(edge[2]))
        ):
            if offset > start:
                yield SegmentSpan(number, start, offset, tuple(graphs), owner)
                start = offset
            if isinstance(user, Owner):
                owner = user if opens else None
            elif opens:
                graphs[user] = None
            else:
                graphs.pop(user, None)
        if segment.bytes > start:
            yield SegmentSpan(number, start, segment.bytes, (), None)


class PoolMapRow(Struct, frozen=True):
    """Usage of one graph on a pool map: spans ``(begin, end, use)`` in bytes."""

    graph: str
    spans: tuple[tuple[int, int, ByteCategory], ...]


class PoolMap(Struct, frozen=True):
    """A pool with its segments concatenated."""

    id: PoolId
    """Id of the pool."""
    size: int
    """Sum of the segments, in bytes."""
    starts: tuple[int, ...]
    """Start of each segment, in bytes."""
    rows: tuple[PoolMapRow, ...]
    """Usage of each graph, in capture order."""


def build_pool_map(memory_pass: MemoryPass, pool: PoolId) -> PoolMap:
    """Map the bytes of ``pool`` to the graphs that use them, in capture order."""
    starts: dict[int, int] = {}
    size = 0
    for number, segment in enumerate(memory_pass.segments):
        if segment.pool == pool:
            starts[number] = size
            size += segment.bytes
    spans: dict[str, list[tuple[int, int, ByteCategory]]] = defaultdict(list)
    for piece in iter_segment_spans(memory_pass):
        if piece.segment not in starts:
            continue
        begin = starts[piece.segment] + piece.begin
        for graph in piece.graphs:
            last = spans[graph][-1] if spans[graph] else None
            if last is not None and (last[1], last[2]) == (begin, piece.use):
                spans[graph][-1] = (last[0], begin + piece.bytes, piece.use)
            else:
                spans[graph].append((begin, begin + piece.bytes, piece.use))
    rows = tuple(
        PoolMapRow(graph.graph, tuple(spans[graph.graph]))
        for graph in memory_pass.graphs
        if graph.pool == pool
    )
    return PoolMap(pool, size, tuple(starts.values()), rows)


def compute_footprints(memory_pass: MemoryPass) -> tuple[GraphFootprint, ...]:
    """Compute the pool usage of each graph, in capture order."""
    exclusive: dict[str, int] = defaultdict(int)
    footprint: dict[str, int] = defaultdict(int)
    for piece in iter_segment_spans(memory_pass):
        for graph in piece.graphs:
            footprint[graph] += piece.bytes
        if len(piece.graphs) == 1:
            exclusive[piece.graphs[0]] += piece.bytes
    return tuple(
        GraphFootprint(
            graph=graph.graph,
            pool=graph.pool,
            footprint=footprint[graph.graph],
            exclusive=exclusive[graph.graph],
            shared=footprint[graph.graph] - exclusive[graph.graph],
            live_after_capture=graph.retained_bytes,
            peak=graph.peak_bytes,
            allocations=graph.allocations,
            instantiate_device=graph.instantiate_device_bytes,
        )
        for graph in memory_pass.graphs
    )


def compute_pool_breakdowns(memory_pass: MemoryPass) -> tuple[PoolBreakdown, ...]:
    """Break down every private pool, by id."""
    pools: dict[PoolId, PoolBreakdown] = {}
    for segment in memory_pass.segments:
        pool = pools.setdefault(segment.pool, PoolBreakdown(segment.pool))
        pool.segments += 1
        pool.reserved += segment.bytes
    for piece in iter_segment_spans(memory_pass):
        pool = pools[memory_pass.segments[piece.segment].pool]
        pool.graphs.update(piece.graphs)
        match piece.use:
            case ByteCategory.EXCLUSIVE:
                pool.exclusive += piece.bytes
            case ByteCategory.SHARED:
                pool.shared += piece.bytes
            case ByteCategory.UNUSED:
                pool.unused += piece.bytes
            case ByteCategory.WORKSPACE:
                pool.workspaces += piece.bytes
            case ByteCategory.MODEL if piece.owner is not None:
                pool.owned[piece.owner] += piece.bytes
    return tuple(pools[pool] for pool in sorted(pools))
