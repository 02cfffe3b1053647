"""Memory use from torch's allocator."""

from __future__ import annotations

import torch

from graphviz_dash.model.run import MemoryUse, PoolUse


def read_memory_use() -> MemoryUse:
    """Read this process's allocator statistics, with private pools separate."""
    pools: dict[tuple[int, int], list[int]] = {}
    for segment in torch.cuda.memory_snapshot():
        pool = tuple(segment.get("segment_pool_id", (0, 0)))
        if pool == (0, 0):
            continue
        use = pools.setdefault((int(pool[0]), int(pool[1])), [0, 0, 0])
        use[0] += 1
        use[1] += segment["total_size"]
        use[2] += segment["allocated_size"]
    return MemoryUse(
        peak_allocated_bytes=torch.cuda.max_memory_allocated(),
        peak_reserved_bytes=torch.cuda.max_memory_reserved(),
        allocated_bytes=torch.cuda.memory_allocated(),
        reserved_bytes=torch.cuda.memory_reserved(),
        pools=tuple(PoolUse(pool, *use) for pool, use in sorted(pools.items())),
    )
