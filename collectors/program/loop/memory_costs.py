"""What a capture takes from the device's memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from cuda.bindings import driver

from collectors.driver.calls import call

Pool = tuple[int, int]


class PoolBytes(NamedTuple):
    """Bytes of one memory pool: held from the device, and allocated of these."""

    reserved: int
    allocated: int


def pool_bytes(pool: Pool) -> PoolBytes:
    """What the allocator says of ``pool``."""
    segments = [
        segment
        for segment in torch.cuda.memory_snapshot()
        if tuple(segment.get("segment_pool_id", (0, 0))) == pool
    ]
    return PoolBytes(
        sum(segment["total_size"] for segment in segments),
        sum(segment["allocated_size"] for segment in segments),
    )


def bytes_outside() -> int:
    """Bytes of the device in use, by the driver, less those that the allocator holds.

    Raises:
        DriverError: the driver refuses.
    """
    free, total = call(driver.cuMemGetInfo)
    return int(total) - int(free) - torch.cuda.memory_reserved()


def as_pool(handle: Any) -> Pool | None:
    """A pool's id as torch gives it; None where there is none."""
    if handle is None:
        return None
    first, second = handle
    return int(first), int(second)
