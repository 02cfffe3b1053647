"""Whether a launch takes what it should, as synthetic graphs on the same GPU foretell.

A repeat launch is foretold as the sum of what synthetic graphs took: a linear chain of as many
nodes, each further root, and each node that is no kernel by its kind. The parts' intervals are
taken as independent: half widths add up as squares. How far such a sum may be off is taken from the
recording itself: how far the medians of its own graphs lie from theirs.
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
    """What is to be said of a launch."""

    EXPECTED = "as fast as expected"
    SLOWER = "slower than expected"
    FASTER = "faster than expected"
    OPEN = "too uncertain to tell"


class LaunchVerdict(Struct, frozen=True):
    """The CPU time of a graph's repeat launch against what is foretold of it."""

    verdict: Verdict
    """As expected where ``ratio`` lies within ``usual``, slower or faster where none of
    ``range`` does."""
    reference: str
    """Name of the recording."""
    foretold_ns: float
    """The sum, in ns."""
    foretold: Spread
    """The 95% interval of the sum, in ns."""
    ratio: float
    """Measured over foretold."""
    range: Spread
    """The measured quartiles over the ends of ``foretold``."""
    usual: Spread
    """Least and largest ratio of the recording's own graphs."""


def launch_verdict(
    kinds: Mapping[NodeKind, int], roots: int, measured: Timing, reference: str, costs: LaunchCosts
) -> LaunchVerdict | Missing:
    """The verdict on a graph of so many nodes of each of ``kinds`` and so many ``roots``, whose
    repeat launch took the CPU time ``measured``; Missing where the recording has no graph to tell
    what some of them cost."""
    others = {kind.value: n for kind, n in kinds.items() if kind is not NodeKind.KERNEL and n}
    unknown = sorted(set(others) - set(costs.others))
    if LaunchMeasure.REPEAT_LAUNCH_CPU not in costs.lines or (roots > 1 and costs.root is None):
        return Missing(Fact.LAUNCH_COSTS, f"{reference} has too few graphs to foretell it")
    if unknown:
        reason = f"{reference} holds no graph that tells what {', '.join(unknown)} nodes add"
        return Missing(Fact.LAUNCH_COSTS, reason)
    low, middle, high = _foretold(sum(kinds.values()), roots, others, costs)
    if low <= 0:
        listed = ", ".join(sorted(others))
        reason = f"{reference} tells what {listed} nodes add too roughly for as many of them"
        return Missing(Fact.LAUNCH_COSTS, reason)
    own = measured.summary
    spread = own.spread
    ratios = Spread(spread.low / high, (spread.high or 0.0) / low, spread.kind, spread.samples)
    usual = _usual(costs)
    return LaunchVerdict(
        verdict=_verdict(own.median / middle, ratios, usual),
        reference=reference,
        foretold_ns=middle,
        foretold=Spread(low, high, SpreadKind.INTERVAL, spread.samples),
        ratio=own.median / middle,
        range=ratios,
        usual=usual,
    )


def _verdict(ratio: float, ratios: Spread, usual: Spread) -> Verdict:
    most = usual.high or usual.low
    if usual.low <= ratio <= most:
        return Verdict.EXPECTED
    if ratios.low > most:
        return Verdict.SLOWER
    return Verdict.FASTER if (ratios.high or ratios.low) < usual.low else Verdict.OPEN


def _foretold(
    nodes: int, roots: int, others: Mapping[str, int], costs: LaunchCosts
) -> tuple[float, float, float]:
    """The lower end of the sum's interval, the sum and the upper end, in ns."""
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


def _usual(costs: LaunchCosts) -> Spread:
    """Least and largest ratio of what the recording's graphs of kernels took to what is foretold of
    them by the same sum."""
    ratios = []
    for row in costs.rows:
        shape = row.topology
        median = row.median(LaunchMeasure.REPEAT_LAUNCH_CPU)
        roots = 1 if shape.single_root else shape.width
        if median is None or shape.other is not None or (roots > 1 and costs.root is None):
            continue
        _, foretold, _ = _foretold(shape.nodes, roots, {}, costs)
        ratios.append(median / foretold)
    return Spread(min(ratios), max(ratios), SpreadKind.MIDDLE, len(ratios))
