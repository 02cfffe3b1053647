"""How the equation of two steps was made, in sentences."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.step.waterfall import Waterfall

_RANKS_METHOD: Final = (
    "What a collective takes longer than the shortest kernel among the ranks for the same one is "
    "waiting, and no kernel time; how long ranks wait in a clean step is told by the models of all "
    "ranks side by side, which begin it together."
)


def ranks_method(waterfall: Waterfall) -> str:
    """How waiting for ranks was determined; empty where there was none."""
    return _RANKS_METHOD if waterfall.waits_for_ranks else ""
