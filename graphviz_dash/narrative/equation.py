"""How the equation of two steps was made, in sentences."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.step.waterfall import Waterfall
from graphviz_dash.units import format_percent

_RANKS_METHOD: Final = (
    "What a collective takes longer than the shortest kernel among the ranks for the same one is "
    "waiting, and no kernel time; how long ranks wait in a clean step is told by the models of all "
    "ranks side by side, which begin it together."
)


def ranks_method(waterfall: Waterfall) -> str:
    """How waiting for ranks was determined; empty where there was none."""
    return _RANKS_METHOD if waterfall.waits_for_ranks else ""


def waterfall_method(waterfall: Waterfall) -> str:
    """How the parts of a difference were determined, and what they leave unexplained."""
    before, after = waterfall.pairs.before, waterfall.pairs.after
    scale_before, scale_after = waterfall.scales
    return (
        "Clean medians are the whole, in integer nanoseconds; the parts add up to the difference "
        f"exactly. {before.matching_steps} of {before.traced_steps} traced steps of "
        f"{waterfall.baseline} and {after.matching_steps} of {after.traced_steps} of "
        f"{waterfall.run} divide it: GPU work as traced, instants of the CPU scaled by "
        f"{scale_before:.2f} and {scale_after:.2f} (clean over traced launch CPU time). The "
        f"remainder, {format_percent(waterfall.remainder_share)} of the step of "
        f"{waterfall.baseline}, is what that does not explain. {ranks_method(waterfall)}".rstrip()
    )
