"""What the caching allocator's own statistics tell of a run: its pools, in use and free. All that
is known of a recorded program and of an imported snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from graphviz_dash.model.run import Run


class AllocatorUse(Struct, frozen=True):
    """What the allocator of one run held from the device at the end, in bytes."""

    run: str
    """Its name."""
    default_allocated: int
    """Live allocations of the default pool."""
    default_free: int
    """Reserved by the default pool and free."""
    pools_allocated: int
    """Live allocations of the private pools of graphs."""
    pools_free: int
    """Reserved by them and free: what their graphs reuse at each replay, and what rounding left."""
    pools: int
    """How many private pools there are."""
    peak_allocated: int | None
    """Most bytes of live allocations; None where the source has no history."""
    graphs: int
    """Graphs that are launched by themselves."""

    @property
    def reserved(self) -> int:
        """All that the allocator held."""
        return self.default_allocated + self.default_free + self.private

    @property
    def private(self) -> int:
        """What private pools reserve."""
        return self.pools_allocated + self.pools_free


def allocator_uses(runs: Iterable[Run]) -> tuple[AllocatorUse, ...]:
    """The use of each run that has statistics."""
    return tuple(_use(run) for run in runs if run.memory is not None)


def _use(run: Run) -> AllocatorUse:
    use = run.memory
    assert use is not None
    reserved = sum(pool.reserved_bytes for pool in use.pools)
    allocated = sum(pool.allocated_bytes for pool in use.pools)
    default_allocated = max(use.allocated_bytes - allocated, 0)
    return AllocatorUse(
        run=run.name,
        default_allocated=default_allocated,
        default_free=max(use.reserved_bytes - reserved - default_allocated, 0),
        pools_allocated=allocated,
        pools_free=max(reserved - allocated, 0),
        pools=len(use.pools),
        peak_allocated=use.peak_allocated_bytes,
        graphs=sum(graph.parent is None for graph in run.graphs),
    )
