"""Effect of the node creation order on the step time.

The driver starts independent nodes in creation order, which affects the overlap of copies and
kernels.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.arrays import encode, get_spans
from graphviz_dash.analysis.metrics.run_metrics import compute_clean_step_ns
from graphviz_dash.analysis.trace.steps import compute_exclusive_ns, find_steps
from graphviz_dash.features.graph.diff.graph_diff import diff_graphs
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Experiment, Run

_COPY: Final = "memcpy"


class OrderEffect(Struct, frozen=True):
    """Two runs whose graphs differ only in creation order."""

    slower: str
    """Name of the run with the longer step."""
    faster: str
    step_ns: tuple[float, float]
    """Clean step times in ns, slower run first."""
    hidden_copy_shares: tuple[float, float] | None
    """Share of copy time that overlaps kernels, per run; None without a trace or copies."""


def find_order_effects(experiment: Experiment) -> tuple[OrderEffect, ...]:
    """Find pairs of runs whose single graphs differ only in creation order."""
    single = [run for run in experiment.runs if len(run.graphs) == 1]
    return tuple(
        effect
        for first, second in combinations(single, 2)
        if _is_reordered(first.graphs[0], second.graphs[0])
        if (effect := _build_effect(first, second)) is not None
    )


def _is_reordered(a: CapturedGraph, b: CapturedGraph) -> bool:
    if len(a.nodes) != len(b.nodes) or len(a.edges) != len(b.edges):
        return False
    if a.nodes == b.nodes and a.edges == b.edges:
        return False
    return diff_graphs([a], [b]).is_reordered


def _build_effect(first: Run, second: Run) -> OrderEffect | None:
    times = compute_clean_step_ns(first), compute_clean_step_ns(second)
    if times[0] is None or times[1] is None:
        return None
    slow, fast = (first, second) if times[0] >= times[1] else (second, first)
    shares = compute_hidden_copy_share(slow), compute_hidden_copy_share(fast)
    return OrderEffect(
        slow.name,
        fast.name,
        (max(times[0], times[1]), min(times[0], times[1])),
        None if shares[0] is None or shares[1] is None else (shares[0], shares[1]),
    )


def compute_hidden_copy_share(run: Run) -> float | None:
    """Compute the share of copy time that overlaps kernels over all traced steps, 0 to 1.

    None without a trace or without copies.
    """
    trace = run.replay_trace
    if trace is None:
        return None
    begin, end = get_spans(trace.gpu)
    codes, kinds = encode(trace.gpu["kind"])
    copy = codes == (kinds.index(_COPY) if _COPY in kinds else -1)
    copied = hidden = 0
    for step in find_steps(trace):
        rows = step.gpu_rows
        copies, others = rows[copy[rows]], rows[~copy[rows]]
        busy_ns = [
            int(compute_exclusive_ns(begin[selected], end[selected]).sum())
            for selected in (copies, others, rows)
        ]
        copied += busy_ns[0]
        hidden += busy_ns[0] + busy_ns[1] - busy_ns[2]
    return hidden / copied if copied else None
