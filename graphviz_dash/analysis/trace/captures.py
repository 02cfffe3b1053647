"""Calls within captures, which add nodes to a graph instead of submitting work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.arrays import Flags, Ints, encode, get_column

if TYPE_CHECKING:
    import polars as pl


def find_captured(runtime: pl.DataFrame, instants: Ints) -> Flags:
    """Find the ``instants`` within a capture; a capture without an end lasts to the last call."""
    codes, names = encode(runtime["name"])
    captured = np.zeros(len(instants), dtype=np.bool_)
    wanted = [np.array([word in name for name in names], dtype=np.bool_) for word in _BOUNDS]
    if not len(names) or not wanted[0].any():
        return captured
    starts = get_column(runtime, "ts")
    begins, ends = (starts[flags[codes]] for flags in wanted)
    for begin in begins.tolist():
        end = ends[np.searchsorted(ends, begin) :]
        captured |= (instants >= begin) & (instants <= (end[0] if len(end) else starts[-1]))
    return captured


_BOUNDS = ("StreamBeginCapture", "StreamEndCapture")
