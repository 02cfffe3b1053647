"""Memory cost of captures on the device."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from cuda.bindings import driver

from collectors.driver.calls import call

Pool = tuple[int, int]


class PoolBytes(NamedTuple):
    """Bytes of a memory pool: reserved on the device, and allocated of these."""

    reserved: int
    allocated: int


def read_pool_bytes(pool: Pool) -> PoolBytes:
    """Read the size of ``pool`` from the allocator."""
    segments = [
        segment
        for segment in torch.cuda.memory_snapshot()
        if tuple(segment.get("segment_pool_id", (0, 0))) == pool
    ]
    return PoolBytes(
        sum(segment["total_size"] for segment in segments),
        sum(segment["allocated_size"] for segment in segments),
    )


def compute_outside_bytes() -> int:
    """Compute the device memory in use outside of the allocator, from the driver.

    Raises:
        DriverError: A driver call fails.
    """
    free, total = call(driver.cuMemGetInfo)
    return int(total) - int(free) - torch.cuda.memory_reserved()


def convert_pool(handle: Any) -> Pool | None:
    """Convert a pool id from torch. None without one."""
    if handle is None:
        return None
    first, second = handle
    return int(first), int(second)
