"""Replays whose kernels seem to follow each other without any gap: their times were made up.

roctracer gets one record for a graph launch and divides it among the kernels, so that each lasts
until the next one begins. Seen in traces of vLLM, SGLang and xDiT on MI300X, where gaps between
replayed kernels are at most 3 ns and between others microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from graphviz_dash.ingest.kineto.correlations import among
from graphviz_dash.model.trace import STITCHED, TraceProblem
from graphviz_dash.units import counted

_LARGEST_GAP_NS: Final = 3
_FEWEST_GAPS: Final = 10
_SHARE: Final = 0.98
"""Of the gaps that are so small. A copy within a graph may stand apart."""


def stitched_replays(gpu: pl.DataFrame, graph_launches: pl.DataFrame) -> Iterator[TraceProblem]:
    """``graph_launches`` are the calls that launch graphs."""
    if not graph_launches.height:
        return
    rows = gpu.filter(among(gpu["correlation"], graph_launches["correlation"])).select(
        "device", "stream", "correlation", "ts", end=pl.col("ts") + pl.col("dur")
    )
    rows = rows.sort("correlation", "device", "stream", "ts", maintain_order=True)
    same = np.ones(max(0, rows.height - 1), dtype=np.bool_)
    for name in ("correlation", "device", "stream"):
        values = rows[name].fill_null(-1).to_numpy()
        same &= values[1:] == values[:-1]
    gaps = (rows["ts"].to_numpy()[1:] - rows["end"].to_numpy()[:-1])[same]
    if len(gaps) < _FEWEST_GAPS or (np.abs(gaps) <= _LARGEST_GAP_NS).mean() < _SHARE:
        return
    yield TraceProblem(
        STITCHED,
        f"Between the {counted(rows.height, 'kernel')} of graph launches lie gaps of at most "
        f"{_LARGEST_GAP_NS} ns: their times are stitched together, not measured one by one. "
        "Their durations hold the gaps, so neither gaps nor kernel times of replays can be "
        "compared with those of eager work.",
    )
