from __future__ import annotations

from typing import Final

from graphviz_dash.model.parallel import (
    Access,
    Attempt,
    Operator,
    ParallelCheck,
    ParallelPlan,
    Storage,
    Verdict,
)

PLAN: Final = ParallelPlan(
    operators=(
        Operator(
            "aten.mm.default",
            (Access(0, 0, 64, False), Access(1, 0, 64, True)),
            1,
            source="model.py:4",
            device_ns=5_000,
            demand=0.25,
        ),
        Operator(
            "aten.tanh.default",
            (Access(0, 0, 64, False), Access(2, 0, 64, True)),
            1,
            source="model.py:5",
            device_ns=4_000,
            demand=0.1,
        ),
        Operator(
            "aten.add.Tensor",
            (Access(1, 0, 64, False), Access(2, 0, 64, False), Access(3, 0, 64, True)),
            1,
            source="model.py:6",
            device_ns=2_000,
            demand=0.1,
        ),
    ),
    storages=(
        Storage(64, (4, 4), "float32", None),
        Storage(64, (4, 4), "float32", 0),
        Storage(64, (4, 4), "float32", 1),
        Storage(64, (4, 4), "float32", 2),
    ),
    streams=(0, 1, 0),
    waits=((), (), (1,)),
    same_stream_gap_ns=500,
    cross_stream_gap_ns=800,
    serial=Attempt(1, 1, 0, 18_000, (18_000, 18_400), 34 << 20, 33 << 20),
    attempts=(Attempt(2, 1, 1, 14_000, (13_900, 14_200), 38 << 20, 35 << 20),),
    selected_streams=2,
    verdict=Verdict.FASTER,
    memory_limit_bytes=51 << 20,
    check=ParallelCheck(24, 8, 4, 1, 24, 0.0, 0.0),
)
