"""The break-even of a graph, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphviz_dash.analysis.comparison.break_even import FIRST_LAUNCH
from graphviz_dash.units import counted, format_count, format_ns

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.break_even import BreakEven


def _part(name: str, ns: float) -> str:
    # Within what steps vary a first launch may take less than one.
    if ns < 0 and name == FIRST_LAUNCH:
        return f"first launch {format_ns(-ns)} less than a step"
    return f"{name} {format_ns(ns)}"


def break_even_text(costs: BreakEven) -> str:
    """The cost in parts, when it is paid back, and the warm-up."""
    parts = ", ".join(_part(name, ns) for name, ns in costs.parts)
    most = "never" if costs.most is None else format_count(costs.most)
    fewest = format_count(costs.fewest)
    replays = fewest if fewest == most else f"{fewest} to {most}"
    warm = counted(costs.warm_ups, "warm-up iteration")
    return (
        f"{format_ns(costs.one_off_ns)} once: {parts}. {format_ns(costs.saving_ns)} saved per "
        f"replay (95%: {format_ns(costs.low_ns)} to {format_ns(costs.high_ns)}), so that it is "
        f"paid back after {counted(costs.replays, 'replay')} (95%: {replays}). "
        f"The {warm} took {format_ns(costs.warm_up_ns)} and are not counted, for they do "
        f"the step's work; thrown away, they make it {counted(costs.discarded, 'replay')}."
    )
