"""One graph created in two orders: what the order alone does to the end-to-end time.

The driver starts nodes that depend on nothing in the order of their creation, so of two graphs that
differ in nothing else one may overlap copies with kernels and the other not.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import column, encode
from graphviz_dash.analysis.metrics.run_metrics import clean_step_ns
from graphviz_dash.analysis.trace.steps import exclusive_ns, steps
from graphviz_dash.features.graph.diff.graph_diff import diff_graphs
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Experiment, Run

_COPY: Final = "memcpy"


class OrderEffect(Struct, frozen=True):
    """Two runs whose graphs differ in the order of creation only."""

    slower: str
    """Name of the run with the longer step."""
    faster: str
    """Name of the other run."""
    step_ns: tuple[float, float]
    """Clean step times of the slower and of the faster run, in ns."""
    hidden: tuple[float, float] | None
    """Of both runs the share of their copies' time in which a kernel ran too, over all traced
    steps, 0 to 1; None where a run has no trace or no copies."""


def order_effects(experiment: Experiment) -> tuple[OrderEffect, ...]:
    """Each pair of runs of ``experiment`` whose one graph is the same but for the order in which
    its nodes were created, in the order of the experiment."""
    single = [run for run in experiment.runs if len(run.graphs) == 1]
    return tuple(
        effect
        for first, second in combinations(single, 2)
        if _reordered(first.graphs[0], second.graphs[0])
        if (effect := _effect(first, second)) is not None
    )


def _reordered(a: CapturedGraph, b: CapturedGraph) -> bool:
    if len(a.nodes) != len(b.nodes) or len(a.edges) != len(b.edges):
        return False
    if a.nodes == b.nodes and a.edges == b.edges:
        return False
    return diff_graphs([a], [b]).reordered


def _effect(first: Run, second: Run) -> OrderEffect | None:
    times = clean_step_ns(first), clean_step_ns(second)
    if times[0] is None or times[1] is None:
        return None
    slow, fast = (first, second) if times[0] >= times[1] else (second, first)
    shares = hidden_copies(slow), hidden_copies(fast)
    return OrderEffect(
        slow.name,
        fast.name,
        (max(times[0], times[1]), min(times[0], times[1])),
        None if shares[0] is None or shares[1] is None else (shares[0], shares[1]),
    )


def hidden_copies(run: Run) -> float | None:
    """The share of the time of a run's copies in which a kernel ran too, over all traced steps, 0
    to 1; None without a trace or without copies."""
    trace = run.replay_trace
    if trace is None:
        return None
    begin = column(trace.gpu, "ts")
    end = begin + np.maximum(column(trace.gpu, "dur"), 0)
    codes, kinds = encode(trace.gpu["kind"])
    copy = codes == (kinds.index(_COPY) if _COPY in kinds else -1)
    copied = hidden = 0
    for step in steps(trace):
        rows = step.gpu_rows
        copies, others = rows[copy[rows]], rows[~copy[rows]]
        alone = [
            int(exclusive_ns(begin[selected], end[selected]).sum())
            for selected in (copies, others, rows)
        ]
        copied += alone[0]
        hidden += alone[0] + alone[1] - alone[2]
    return hidden / copied if copied else None
