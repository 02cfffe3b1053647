"""Break-even of a graph, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphviz_dash.analysis.comparison.break_even import FIRST_LAUNCH
from graphviz_dash.units import counted, format_count, format_ns

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.break_even import BreakEven


def _part(name: str, ns: float) -> str:
    # A first launch may be faster than a step within the variation of steps.
    if ns < 0 and name == FIRST_LAUNCH:
        return f"first launch {format_ns(-ns)} less than a step"
    return f"{name} {format_ns(ns)}"


def break_even_text(costs: BreakEven) -> str:
    """Format the cost in parts, the break-even and the warm-up."""
    parts = ", ".join(_part(name, ns) for name, ns in costs.parts)
    most = "never" if costs.most is None else format_count(costs.most)
    fewest = format_count(costs.fewest)
    replays = fewest if fewest == most else f"{fewest} to {most}"
    warm_ups = counted(costs.warm_ups, "warm-up iteration")
    return (
        f"{format_ns(costs.one_off_ns)} once: {parts}. {format_ns(costs.saving_ns)} saved per "
        f"replay (95%: {format_ns(costs.low_ns)} to {format_ns(costs.high_ns)}), so it is "
        f"paid back after {counted(costs.replays, 'replay')} (95%: {replays}). "
        f"The {warm_ups} took {format_ns(costs.warm_up_ns)} and are excluded because they do the "
        f"step's work; including warm-up, it takes {counted(costs.discarded, 'replay')}."
    )
