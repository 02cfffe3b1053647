"""Calls within captures, which add nodes to a graph instead of submitting work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.arrays import Flags, Ints, encode, get_column

if TYPE_CHECKING:
    import polars as pl


def find_captured(runtime: pl.DataFrame, instants: Ints) -> Flags:
    """Find the ``instants`` within a capture; one without an end lasts to the last call."""
    codes, names = encode(runtime["name"])
    mask = np.zeros(len(instants), dtype=np.bool_)
    bounds = [np.array([word in name for name in names], dtype=np.bool_) for word in _BOUNDS]
    if not len(names) or not bounds[0].any():
        return mask
    starts = get_column(runtime, "ts")
    begins, ends = (starts[flags[codes]] for flags in bounds)
    for begin in begins.tolist():
        end = ends[np.searchsorted(ends, begin) :]
        mask |= (instants >= begin) & (instants <= (end[0] if len(end) else starts[-1]))
    return mask


_BOUNDS = ("StreamBeginCapture", "StreamEndCapture")
