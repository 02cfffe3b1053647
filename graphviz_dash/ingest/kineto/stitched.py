"""Detection of replays without gaps between kernels, whose times are synthetic.

roctracer gets one record per graph launch and divides it among the kernels, so that each lasts
until the next one starts. Observed in traces of vLLM, SGLang and xDiT on MI300X, where gaps between
replayed kernels are at most 3 ns and others microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from graphviz_dash.ingest.kineto.correlations import mask_members
from graphviz_dash.model.trace import STITCHED, TraceProblem
from graphviz_dash.units import pluralize

_MAX_GAP_NS: Final = 3
_MIN_GAPS: Final = 10
_MIN_SHARE: Final = 0.98
"""Minimum share of such gaps. A copy within a graph may have a real gap."""


def find_stitched_replays(
    gpu: pl.DataFrame, graph_launches: pl.DataFrame
) -> Iterator[TraceProblem]:
    """Report synthetic kernel times of ``graph_launches``, the calls that launch graphs."""
    if not graph_launches.height:
        return
    rows = gpu.filter(mask_members(gpu["correlation"], graph_launches["correlation"])).select(
        "device", "stream", "correlation", "ts", end=pl.col("ts") + pl.col("dur")
    )
    rows = rows.sort("correlation", "device", "stream", "ts", maintain_order=True)
    same_stream = np.ones(max(0, rows.height - 1), dtype=np.bool_)
    for name in ("correlation", "device", "stream"):
        values = rows[name].fill_null(-1).to_numpy()
        same_stream &= values[1:] == values[:-1]
    gaps = (rows["ts"].to_numpy()[1:] - rows["end"].to_numpy()[:-1])[same_stream]
    if len(gaps) < _MIN_GAPS or (np.abs(gaps) <= _MAX_GAP_NS).mean() < _MIN_SHARE:
        return
    yield TraceProblem(
        STITCHED,
        f"Gaps between the {pluralize(rows.height, 'kernel')} of graph launches are at most "
        f"{_MAX_GAP_NS} ns: their times are synthetic and not measured individually. "
        "Their durations include the gaps, so gaps and kernel times of replays are not "
        "comparable with those of eager work.",
    )
