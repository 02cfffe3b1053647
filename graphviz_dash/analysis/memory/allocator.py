"""Allocator statistics of a run.

These are the only memory data of recorded programs and imported snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from graphviz_dash.model.recording import find_released_graphs
from graphviz_dash.model.run import Run


class AllocatorState(Struct, frozen=True):
    """State of an allocator at the end of the run or at its snapshot, in bytes."""

    run: str
    default_allocated: int
    """Live allocations of the default pool."""
    default_free: int
    """Free memory reserved by the default pool."""
    pools_allocated: int
    """Live allocations of private graph pools."""
    pools_free: int
    """Reserved by private pools but free: reused by replays, or lost to rounding."""
    pools: int
    """Private pools."""
    peak_allocated: int | None
    """Peak of live allocations; None if the source has no history."""
    graphs: int
    """Graphs launched directly."""
    is_snapshot: bool = False
    """True if imported from a snapshot."""

    @property
    def reserved(self) -> int:
        """Total reserved memory."""
        return self.default_allocated + self.default_free + self.private_reserved

    @property
    def private_reserved(self) -> int:
        """Memory reserved by private pools."""
        return self.pools_allocated + self.pools_free


class CapturedPools(Struct, frozen=True):
    """Growth of the private pools of a recorded program by the captures of graphs that it kept."""

    growth_bytes: int
    graphs: int
    pools: int


def sum_captured_pools(run: Run) -> CapturedPools | None:
    """Sum the growth of pools by captures; None if it was not recorded."""
    if run.loop is None or run.recording is None:
        return None
    evictions = find_released_graphs(run.recording)
    costs = [cost for cost in run.loop.graphs if cost.graph not in evictions]
    growth = [cost.pool_growth_bytes for cost in costs if cost.pool_growth_bytes is not None]
    if not growth:
        return None
    pools = {cost.pool for cost in costs if cost.pool_growth_bytes is not None}
    return CapturedPools(sum(growth), len(growth), len(pools))


def list_allocator_states(runs: Iterable[Run]) -> tuple[AllocatorState, ...]:
    """Summarize the allocator state of each run with statistics."""
    return tuple(_build_state(run) for run in runs if run.memory is not None)


def _build_state(run: Run) -> AllocatorState:
    use = run.memory
    assert use is not None
    reserved_bytes = sum(pool.reserved_bytes for pool in use.pools)
    allocated_bytes = sum(pool.allocated_bytes for pool in use.pools)
    default_allocated = max(use.allocated_bytes - allocated_bytes, 0)
    return AllocatorState(
        run=run.name,
        default_allocated=default_allocated,
        default_free=max(use.reserved_bytes - reserved_bytes - default_allocated, 0),
        pools_allocated=allocated_bytes,
        pools_free=max(reserved_bytes - allocated_bytes, 0),
        pools=len(use.pools),
        peak_allocated=use.peak_allocated_bytes,
        graphs=sum(graph.parent is None for graph in run.graphs),
        is_snapshot=bool(run.manifest.sources),
    )
