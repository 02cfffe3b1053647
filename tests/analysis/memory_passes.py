"""Memory passes of a training step, with numbers to follow by hand."""

from __future__ import annotations

from graphviz_dash.model.memory import (
    Extent,
    GraphMemory,
    LiveExtent,
    MemoryPass,
    MemoryStage,
    OwnedBytes,
    Owner,
    PoolSegment,
    Stage,
)

MIB = 1 << 20


POOL = (0, 1)


def stages(
    reserved: int, used: int, prepare_peak: int = 0, *, alone: bool = True
) -> tuple[MemoryStage, ...]:
    return tuple(
        MemoryStage(
            stage,
            reserved - 1,
            prepare_peak if stage is Stage.PREPARE and prepare_peak else reserved,
            reserved - 2,
            reserved,
            used,
            used if alone else None,
        )
        for stage in Stage
    )


EAGER = MemoryPass(
    method="by hand",
    iterations=4,
    stages=stages(100 * MIB, 600 * MIB),
    owners_at_end=(OwnedBytes((0, 0), Owner.WEIGHTS, 10 * MIB),),
    owners_at_peak=(
        OwnedBytes((0, 0), Owner.WEIGHTS, 10 * MIB),
        OwnedBytes((0, 0), Owner.OPTIMIZER, 20 * MIB),
        OwnedBytes((0, 0), Owner.UNOWNED, 8 * MIB),
        OwnedBytes((0, 0), Owner.TRANSIENT, 40 * MIB),
    ),
    segments=(),
    live_extents=(),
    graphs=(),
)


GRAPHED = MemoryPass(
    method="by hand",
    iterations=4,
    stages=stages(120 * MIB, 624 * MIB, 150 * MIB),
    owners_at_end=(),
    owners_at_peak=(
        OwnedBytes((0, 0), Owner.WEIGHTS, 10 * MIB),
        OwnedBytes((0, 0), Owner.OPTIMIZER, 20 * MIB),
        OwnedBytes((0, 0), Owner.UNOWNED, 8 * MIB),
        OwnedBytes((0, 0), Owner.TENSORS, 2 * MIB),
        OwnedBytes((0, 0), Owner.TRANSIENT, 4 * MIB),
        OwnedBytes(POOL, Owner.GRADIENTS, 5 * MIB),
    ),
    segments=(PoolSegment(POOL, 40 * MIB), PoolSegment(POOL, 30 * MIB)),
    live_extents=(
        LiveExtent(0, 0, 5 * MIB, Owner.GRADIENTS),
        LiveExtent(1, 20 * MIB, 28 * MIB, Owner.UNOWNED),
        LiveExtent(1, 0, 1 * MIB, Owner.TENSORS),
    ),
    graphs=(
        GraphMemory("graph-0", POOL, 9, 30 * MIB, 6 * MIB, (Extent(0, 0, 30 * MIB),), 0),
        GraphMemory(
            "graph-1",
            POOL,
            7,
            20 * MIB,
            9 * MIB,
            (Extent(0, 20 * MIB, 36 * MIB), Extent(1, 0, 28 * MIB)),
            2 * MIB,
        ),
    ),
)
