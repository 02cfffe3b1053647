"""Private memory pools: which of their bytes belong to one graph, to several, to none.

A graph's part of its pool are the places that its capture allocated at some time. A replay writes
there, so two graphs that share a place must not run at once, and nothing else may live in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from graphviz_dash.model.memory import Owner

if TYPE_CHECKING:
    from graphviz_dash.model.memory import MemoryPass, PoolId

_THEIRS: Final = frozenset({Owner.WEIGHTS, Owner.GRADIENTS, Owner.OPTIMIZER, Owner.BUFFERS})
"""Owners whose bytes are counted as theirs, in whatever pool they lie."""


class Use(StrEnum):
    """What bytes of a pool are counted as."""

    ONE = "of one graph"
    SHARED = "shared"
    NONE = "unused"
    WORKSPACE = "library workspaces"
    MODEL = "the model's own tensors"


@dataclass(frozen=True)
class Stretch:
    """Bytes of one segment that the same graphs use and the same owner holds, if one does."""

    segment: int
    begin: int
    end: int
    graphs: tuple[str, ...]
    owner: Owner | None

    @property
    def bytes(self) -> int:
        """Its length."""
        return self.end - self.begin

    @property
    def use(self) -> Use:
        """What it is counted as."""
        if self.owner in _THEIRS:
            return Use.MODEL
        if self.owner is Owner.UNOWNED:
            return Use.WORKSPACE
        if len(self.graphs) > 1:
            return Use.SHARED
        return Use.ONE if self.graphs else Use.NONE


@dataclass(frozen=True)
class GraphShare:
    """What one graph uses of its pool, in bytes.

    ``footprint`` is all of it: ``exclusive``, which no other graph uses, and ``shared``. ``kept``
    and ``peak`` are of its capture: alive at its end, and most alive at once.
    """

    graph: str
    pool: PoolId | None
    footprint: int
    exclusive: int
    shared: int
    kept: int
    peak: int
    allocations: int
    instantiate_device: int | None


@dataclass
class PoolUse:
    """One private pool, in bytes; everything after ``graphs`` adds up to ``reserved``.

    ``exclusive``, ``shared`` and ``unused`` are used by one graph, by several and by none.
    ``owned`` are live weights, gradients, optimizer state and buffers that lie in the pool, and
    ``workspaces`` live allocations that no tensor holds.
    """

    id: PoolId
    segments: int = 0
    reserved: int = 0
    graphs: set[str] = field(default_factory=set)
    exclusive: int = 0
    shared: int = 0
    unused: int = 0
    workspaces: int = 0
    owned: dict[Owner, int] = field(default_factory=lambda: defaultdict(int))


def stretches(memory_pass: MemoryPass) -> Iterator[Stretch]:
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
                yield Stretch(number, begin, offset, tuple(graphs), owner)
                begin = offset
            if isinstance(who, Owner):
                owner = who if opens else None
            elif opens:
                graphs[who] = None
            else:
                graphs.pop(who, None)
        if segment.bytes > begin:
            yield Stretch(number, begin, segment.bytes, (), None)


@dataclass(frozen=True)
class MapRow:
    """What one graph uses on a map of its pool: spans ``(begin, end, use)`` in bytes."""

    graph: str
    spans: tuple[tuple[int, int, Use], ...]


@dataclass(frozen=True)
class PoolMap:
    """A pool with its segments end to end. ``starts`` is where each begins, ``size`` their sum."""

    id: PoolId
    size: int
    starts: tuple[int, ...]
    rows: tuple[MapRow, ...]


def pool_map(memory_pass: MemoryPass, pool: PoolId) -> PoolMap:
    """Which graph uses which bytes of ``pool``; graphs in the order of their captures."""
    starts: dict[int, int] = {}
    size = 0
    for number, segment in enumerate(memory_pass.segments):
        if segment.pool == pool:
            starts[number] = size
            size += segment.bytes
    spans: dict[str, list[tuple[int, int, Use]]] = defaultdict(list)
    for piece in stretches(memory_pass):
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
        MapRow(graph.graph, tuple(spans[graph.graph]))
        for graph in memory_pass.graphs
        if graph.pool == pool
    )
    return PoolMap(pool, size, tuple(starts.values()), rows)


def graph_shares(memory_pass: MemoryPass) -> tuple[GraphShare, ...]:
    """What each graph uses of its pool, in the order of the captures."""
    exclusive: dict[str, int] = defaultdict(int)
    footprint: dict[str, int] = defaultdict(int)
    for piece in stretches(memory_pass):
        for graph in piece.graphs:
            footprint[graph] += piece.bytes
        if len(piece.graphs) == 1:
            exclusive[piece.graphs[0]] += piece.bytes
    return tuple(
        GraphShare(
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


def pool_uses(memory_pass: MemoryPass) -> tuple[PoolUse, ...]:
    """Every private pool, by id."""
    pools: dict[PoolId, PoolUse] = {}
    for segment in memory_pass.segments:
        pool = pools.setdefault(segment.pool, PoolUse(segment.pool))
        pool.segments += 1
        pool.reserved += segment.bytes
    for piece in stretches(memory_pass):
        pool = pools[memory_pass.segments[piece.segment].pool]
        pool.graphs.update(piece.graphs)
        match piece.use:
            case Use.ONE:
                pool.exclusive += piece.bytes
            case Use.SHARED:
                pool.shared += piece.bytes
            case Use.NONE:
                pool.unused += piece.bytes
            case Use.WORKSPACE:
                pool.workspaces += piece.bytes
            case Use.MODEL if piece.owner is not None:
                pool.owned[piece.owner] += piece.bytes
    return tuple(pools[pool] for pool in sorted(pools))
