"""Comparison of a launch time with the prediction from synthetic graphs on the same GPU.

The prediction sums a linear chain of as many nodes, additional roots, and non-kernel nodes by kind,
with independent intervals. The tolerance is the largest deviation of the recording's own graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import hypot

from msgspec import Struct

from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, Timing
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.launch import LaunchMeasure


class Verdict(StrEnum):
    """Verdict on a launch time."""

    EXPECTED = "as fast as expected"
    SLOWER = "slower than expected"
    FASTER = "faster than expected"
    INCONCLUSIVE = "inconclusive"


class LaunchVerdict(Struct, frozen=True):
    """CPU time of a graph's repeat launch compared with its prediction."""

    verdict: Verdict
    """EXPECTED if ``ratio`` is within ``reference_ratios``; SLOWER or FASTER if all of
    ``ratio_range`` is outside."""
    reference: str
    """Name of the recording."""
    predicted_ns: float
    predicted_interval: Spread
    """95% interval of the prediction, in ns."""
    ratio: float
    """Measured time divided by the prediction."""
    ratio_range: Spread
    """Measured quartiles divided by the ends of ``predicted_interval``."""
    reference_ratios: Spread
    """Smallest and largest ratio of the recording's own graphs."""


def judge_launch(
    kinds: Mapping[NodeKind, int], roots: int, measured: Timing, reference: str, costs: LaunchCosts
) -> LaunchVerdict | Missing:
    """Judge the repeat launch time of a graph with ``kinds`` of nodes."""
    others = {kind.value: n for kind, n in kinds.items() if kind is not NodeKind.KERNEL and n}
    unknown = sorted(set(others) - set(costs.others))
    if LaunchMeasure.REPEAT_LAUNCH_CPU not in costs.lines or (roots > 1 and costs.root is None):
        return Missing(Fact.LAUNCH_COSTS, f"{reference} has too few graphs for a prediction")
    if unknown:
        reason = f"{reference} has no graph that measures the cost of {', '.join(unknown)} nodes"
        return Missing(Fact.LAUNCH_COSTS, reason)
    low, middle, high = _predict_launch(sum(kinds.values()), roots, others, costs)
    if low <= 0:
        listed = ", ".join(sorted(others))
        reason = f"{reference} measures {listed} nodes too imprecisely for this many of them"
        return Missing(Fact.LAUNCH_COSTS, reason)
    summary = measured.summary
    spread = summary.spread
    ratios = Spread(spread.low / high, (spread.high or 0.0) / low, spread.kind, spread.samples)
    usual = _compute_reference_ratios(costs)
    return LaunchVerdict(
        verdict=_decide_verdict(summary.median / middle, ratios, usual),
        reference=reference,
        predicted_ns=middle,
        predicted_interval=Spread(low, high, SpreadKind.INTERVAL, spread.samples),
        ratio=summary.median / middle,
        ratio_range=ratios,
        reference_ratios=usual,
    )


def _decide_verdict(ratio: float, ratios: Spread, typical: Spread) -> Verdict:
    typical_high = typical.high or typical.low
    if typical.low <= ratio <= typical_high:
        return Verdict.EXPECTED
    if ratios.low > typical_high:
        return Verdict.SLOWER
    return Verdict.FASTER if (ratios.high or ratios.low) < typical.low else Verdict.INCONCLUSIVE


def _predict_launch(
    nodes: int, roots: int, others: Mapping[str, int], costs: LaunchCosts
) -> tuple[float, float, float]:
    """Return lower end of the interval, sum and upper end, in ns."""
    fit = costs.lines[LaunchMeasure.REPEAT_LAUNCH_CPU]
    parts = [
        (1, fit.base_ns, fit.base_interval),
        (max(0, nodes - fit.knee), fit.slope_ns, fit.slope_interval),
    ]
    if costs.root is not None:
        parts.append((max(0, roots - 1), costs.root.ns, costs.root.interval))
    for kind, count in others.items():
        parts.append((count, costs.others[kind].ns, costs.others[kind].interval))
    middle = sum(count * ns for count, ns, _ in parts)
    below = hypot(*(count * (ns - ends.low) for count, ns, ends in parts))
    above = hypot(*(count * ((ends.high or ns) - ns) for count, ns, ends in parts))
    return middle - below, middle, middle + above


def _compute_reference_ratios(costs: LaunchCosts) -> Spread:
    """Find the smallest and largest ratio of measured to predicted time."""
    ratios = []
    for row in costs.rows:
        shape = row.topology
        median = row.get_median(LaunchMeasure.REPEAT_LAUNCH_CPU)
        roots = 1 if shape.single_root else shape.width
        if median is None or shape.middle_node is not None or (roots > 1 and costs.root is None):
            continue
        _, predicted_ns, _ = _predict_launch(shape.nodes, roots, {}, costs)
        ratios.append(median / predicted_ns)
    return Spread(min(ratios), max(ratios), SpreadKind.MIDDLE, len(ratios))
