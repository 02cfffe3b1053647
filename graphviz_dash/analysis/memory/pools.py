"""Private memory pools: which of their bytes belong to one graph, to several, to none.

A graph's part of its pool are the places that its capture allocated at some time. A replay writes
there, so two graphs that share a place must not run at once, and nothing else may live in it.
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

_THEIRS: Final = frozenset({Owner.WEIGHTS, Owner.GRADIENTS, Owner.OPTIMIZER, Owner.BUFFERS})
"""Owners whose bytes are counted as theirs, in whatever pool they lie."""


class ByteUse(StrEnum):
    """What bytes of a pool are counted as."""

    ONE = "of one graph"
    SHARED = "shared"
    NONE = "unused"
    WORKSPACE = "library workspaces"
    MODEL = "the model's own tensors"


class SegmentSpan(Struct, frozen=True):
    """Bytes of one segment that the same graphs use and the same owner holds, if one does."""

    segment: int
    """Index of the segment."""
    begin: int
    """Offset of its first byte in the segment."""
    end: int
    """Offset behind its last byte."""
    graphs: tuple[str, ...]
    """The graphs that use it."""
    owner: Owner | None
    """Who holds a live allocation there; None where nobody does."""

    @property
    def bytes(self) -> int:
        """Its length."""
        return self.end - self.begin

    @property
    def use(self) -> ByteUse:
        """What it is counted as."""
        if self.owner in _THEIRS:
            return ByteUse.MODEL
        if self.owner is Owner.UNOWNED:
            return ByteUse.WORKSPACE
        if len(self.graphs) > 1:
            return ByteUse.SHARED
        return ByteUse.ONE if self.graphs else ByteUse.NONE


class GraphFootprint(Struct, frozen=True):
    """What one graph uses of its pool, in bytes."""

    graph: str
    """Id of the graph."""
    pool: PoolId | None
    """Id of its pool; None for a graph without one."""
    footprint: int
    """All that it uses: ``exclusive`` and ``shared``."""
    exclusive: int
    """What no other graph uses."""
    shared: int
    """What other graphs use too."""
    kept: int
    """Alive at the end of its capture."""
    peak: int
    """Most that was alive at once in its capture."""
    allocations: int
    """How many allocations its capture made."""
    instantiate_device: int | None
    """Device memory that its instantiation took; None where it was not measured."""


class PoolBreakdown(Struct):
    """One private pool, in bytes; everything after ``graphs`` adds up to ``reserved``."""

    id: PoolId
    """Id of the pool."""
    segments: int = 0
    """How many segments it has."""
    reserved: int = 0
    """Size of its segments."""
    graphs: set[str] = field(default_factory=set)
    """The graphs that use it."""
    exclusive: int = 0
    """Used by one graph."""
    shared: int = 0
    """Used by several graphs."""
    unused: int = 0
    """Used by none."""
    workspaces: int = 0
    """Live allocations that no tensor holds."""
    owned: dict[Owner, int] = field(default_factory=lambda: defaultdict(int))
    """Live weights, gradients, optimizer state and buffers that lie in the pool, by owner."""


def segment_spans(memory_pass: MemoryPass) -> Iterator[SegmentSpan]:
    """All private pools in pieces, by segment and place, without gaps or overlaps."""
    edges: list[list[tuple[int, bool, str | Owner]]] = [[] for _ in memory_pass.segments]
    for graph in memory_pass.graphs:
        for extent in graph.extents:
            edges[extent.segment] += [
                (extent.begin, True, graph.graph),
                (extent.end, False, graph.graph),
            ]
    for block in memory_pass.live:
        edges[block.segment] += [(block.begin, True, block.owner), (block.end, False, block.owner)]
    for number, segment in enumerate(memory_pass.segments):
        graphs: dict[str, None] = {}
        owner: Owner | None = None
        begin = 0
        # What ends at a place ends before the next begins there.
        for offset, opens, who in sorted(
            edges[number], key=lambda edge: (edge[0], edge[1], str(edge[2]))
        ):
            if offset > begin:
                yield SegmentSpan(number, begin, offset, tuple(graphs), owner)
                begin = offset
            if isinstance(who, Owner):
                owner = who if opens else None
            elif opens:
                graphs[who] = None
            else:
                graphs.pop(who, None)
        if segment.bytes > begin:
            yield SegmentSpan(number, begin, segment.bytes, (), None)


class PoolMapRow(Struct, frozen=True):
    """What one graph uses on a map of its pool: spans ``(begin, end, use)`` in bytes."""

    graph: str
    spans: tuple[tuple[int, int, ByteUse], ...]


class PoolMap(Struct, frozen=True):
    """A pool with its segments end to end."""

    id: PoolId
    """Id of the pool."""
    size: int
    """Sum of the segments, in bytes."""
    starts: tuple[int, ...]
    """Where each segment begins, in bytes."""
    rows: tuple[PoolMapRow, ...]
    """What each graph uses, in the order of the captures."""


def pool_map(memory_pass: MemoryPass, pool: PoolId) -> PoolMap:
    """Which graph uses which bytes of ``pool``; graphs in the order of their captures."""
    starts: dict[int, int] = {}
    size = 0
    for number, segment in enumerate(memory_pass.segments):
        if segment.pool == pool:
            starts[number] = size
            size += segment.bytes
    spans: dict[str, list[tuple[int, int, ByteUse]]] = defaultdict(list)
    for piece in segment_spans(memory_pass):
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


def graph_footprints(memory_pass: MemoryPass) -> tuple[GraphFootprint, ...]:
    """What each graph uses of its pool, in the order of the captures."""
    exclusive: dict[str, int] = defaultdict(int)
    footprint: dict[str, int] = defaultdict(int)
    for piece in segment_spans(memory_pass):
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
            kept=graph.kept_bytes,
            peak=graph.peak_bytes,
            allocations=graph.allocations,
            instantiate_device=graph.instantiate_device_bytes,
        )
        for graph in memory_pass.graphs
    )


def pool_breakdowns(memory_pass: MemoryPass) -> tuple[PoolBreakdown, ...]:
    """Every private pool, by id."""
    pools: dict[PoolId, PoolBreakdown] = {}
    for segment in memory_pass.segments:
        pool = pools.setdefault(segment.pool, PoolBreakdown(segment.pool))
        pool.segments += 1
        pool.reserved += segment.bytes
    for piece in segment_spans(memory_pass):
        pool = pools[memory_pass.segments[piece.segment].pool]
        pool.graphs.update(piece.graphs)
        match piece.use:
            case ByteUse.ONE:
                pool.exclusive += piece.bytes
            case ByteUse.SHARED:
                pool.shared += piece.bytes
            case ByteUse.NONE:
                pool.unused += piece.bytes
            case ByteUse.WORKSPACE:
                pool.workspaces += piece.bytes
            case ByteUse.MODEL if piece.owner is not None:
                pool.owned[piece.owner] += piece.bytes
    return tuple(pools[pool] for pool in sorted(pools))
