"""Upper bound of the gain from a graph, from the GPU's idle gaps alone."""

from __future__ import annotations

from typing import Final

import numpy as np

from graphviz_dash.analysis.prediction.eager_step import LAUNCHING_NS, EagerStep
from graphviz_dash.model.trace import Trace

AT_MOST: Final = 1.01
"""Allowed excess of a prediction over the bound: work may be a little shorter in a graph."""


def compute_gap_bound(trace: Trace, step: EagerStep) -> float:
    """Return the speedup of a step without its gaps of up to a millisecond, on parallel streams.

    The largest over the traced steps.
    """
    begin = trace.gpu["ts"].to_numpy()
    end = np.maximum.accumulate(begin + trace.gpu["dur"].to_numpy())
    most = 1.0
    for index in step.matching:
        traced = step.steps[index]
        first, last = np.searchsorted(begin, [traced.span_start, traced.span_end])
        before = end[first - 1] if first else traced.span_start
        idle_from = np.append(max(before, traced.span_start), end[first:last])
        gaps = np.append(begin[first:last], traced.span_end) - idle_from
        long = int(gaps[gaps > LAUNCHING_NS].sum())
        most = max(most, traced.duration_ns / (measure_longest_stream(step) + long))
    return most


def measure_longest_stream(step: EagerStep) -> int:
    """Return the longest total work of one stream, in ns."""
    alone = step.exclusive_duration - step.overlapped
    return max(int(alone[step.lane == lane].sum()) for lane in range(step.stream_count))
