"""Memory cost of captures on the device."""

from __future__ import annotations

from typing import Any, NamedTuple

from collectors.allocator.snapshot import read_snapshot
from graphviz_dash.model.memory import DEFAULT_POOL

Pool = tuple[int, int]


class PoolBytes(NamedTuple):
    """Bytes of a memory pool: reserved on the device, and allocated of these."""

    reserved_bytes: int
    allocated_bytes: int


def read_pools() -> dict[Pool, PoolBytes]:
    """Read the sizes of all private pools from the allocator."""
    pools: dict[Pool, PoolBytes] = {}
    for segment in read_snapshot():
        pool = convert_pool(segment.get("segment_pool_id"))
        if pool is not None and pool != DEFAULT_POOL:
            before = pools.get(pool, PoolBytes(0, 0))
            pools[pool] = PoolBytes(
                before.reserved_bytes + segment["total_size"],
                before.allocated_bytes + segment["allocated_size"],
            )
    return pools


def convert_pool(handle: Any) -> Pool | None:
    """Convert a pool id from torch. None without one."""
    if handle is None:
        return None
    first, second = handle
    return int(first), int(second)
