"""Break-even of a graph, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphviz_dash.analysis.comparison.break_even import FIRST_LAUNCH_PART
from graphviz_dash.units import format_count, format_ns, pluralize

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.break_even import BreakEven


def _format_part(name: str, ns: float) -> str:
    # A first launch may be faster than a step within the variation of steps.
    if ns < 0 and name == FIRST_LAUNCH_PART:
        return f"first launch {format_ns(-ns)} less than a step"
    return f"{name} {format_ns(ns)}"


def format_break_even(costs: BreakEven) -> str:
    """Format the cost in parts, the break-even and the warm-up."""
    parts = ", ".join(_format_part(name, ns) for name, ns in costs.parts)
    limit_text = "never" if costs.max_replays is None else format_count(costs.max_replays)
    min_replays = format_count(costs.min_replays)
    replays = min_replays if min_replays == limit_text else f"{min_replays} to {limit_text}"
    warm_ups = pluralize(costs.warm_ups, "warm-up iteration")
    return (
        f"{format_ns(costs.one_off_ns)} once: {parts}. {format_ns(costs.saving_ns)} saved per "
        f"replay (95%: {format_ns(costs.low_ns)} to {format_ns(costs.high_ns)}), so it is "
        f"paid back after {pluralize(costs.replays, 'replay')} (95%: {replays}). "
        f"The {warm_ups} took {format_ns(costs.warm_up_ns)} and are excluded because they do the "
        "step's work; including warm-up, it takes "
        f"{pluralize(costs.replays_without_warmup, 'replay')}."
    )
