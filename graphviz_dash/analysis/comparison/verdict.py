"""The outcome of a run against its baseline: whether it is faster, and whether that can be told.

Decided here and nowhere else; graphviz_dash/narrative words it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from graphviz_dash.analysis.metrics.thresholds import MODEST_SPEEDUP, SLIGHT_SPEEDUP

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.run_metrics import Figure


class Outcome(Enum):
    """What a comparison of step times comes to."""

    FASTER = auto()
    MODESTLY_FASTER = auto()
    """Faster by less than MODEST_SPEEDUP."""
    SLIGHTLY_FASTER = auto()
    """Faster by less than SLIGHT_SPEEDUP."""
    NO_SIGNIFICANT_DIFFERENCE = auto()
    """The 95% interval of the speedup holds 1."""
    SLOWER = auto()
    WRONG_RESULT = auto()
    """Faster as it was timed, but its replays do other work than the step."""
    FAILED = auto()
    """It has no speedup, and a pass of it failed."""
    NOT_COMPARED = auto()
    """It has no speedup: it is the baseline, or one of the two has no step time."""


def outcome(speedup: Figure, *, replays_match: bool, failed: bool) -> Outcome:
    """The outcome of a run with ``speedup`` over its baseline.

    Args:
        speedup: of the step time; a recorded one has no interval, and is taken as it is.
        replays_match: False where a doctor found that replays do other work than the step.
        failed: whether a pass of the run failed.
    """
    if speedup.value is None:
        return Outcome.FAILED if failed else Outcome.NOT_COMPARED
    if speedup.holds_one:
        return Outcome.NO_SIGNIFICANT_DIFFERENCE
    if speedup.value < 1:
        return Outcome.SLOWER
    if not replays_match:
        return Outcome.WRONG_RESULT
    if speedup.value < SLIGHT_SPEEDUP:
        return Outcome.SLIGHTLY_FASTER
    return Outcome.MODESTLY_FASTER if speedup.value < MODEST_SPEEDUP else Outcome.FASTER
