"""Outcome of a run against its baseline. graphviz_dash/narrative has the wording."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from graphviz_dash.analysis.metrics.thresholds import MODEST_SPEEDUP, SLIGHT_SPEEDUP

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.run_metrics import MetricValue


class Outcome(Enum):
    """Outcome of comparing step times."""

    FASTER = auto()
    MODESTLY_FASTER = auto()
    """Faster by less than MODEST_SPEEDUP."""
    SLIGHTLY_FASTER = auto()
    """Faster by less than SLIGHT_SPEEDUP."""
    NO_SIGNIFICANT_DIFFERENCE = auto()
    """The 95% interval of the speedup contains 1, or it is unknown and the speedup is marginal."""
    SLOWER = auto()
    WRONG_RESULT = auto()
    """Faster, but the replays compute a different result."""
    FAILED = auto()
    """No speedup, and a pass failed."""
    NOT_COMPARED = auto()
    """No speedup: the run is the baseline, or a step time is missing."""


def decide_outcome(speedup: MetricValue, *, replays_match: bool, failed: bool) -> Outcome:
    """Determine the outcome of a run.

    Args:
        speedup: speedup over the baseline; the interval of a recorded one may be unknown.
        replays_match: False if a doctor found that replays compute a different result.
        failed: True if a pass failed.
    """
    if speedup.value is None:
        return Outcome.FAILED if failed else Outcome.NOT_COMPARED
    is_marginal = 1 / SLIGHT_SPEEDUP < speedup.value < SLIGHT_SPEEDUP
    if speedup.interval_contains_one or (speedup.spread is None and is_marginal):
        return Outcome.NO_SIGNIFICANT_DIFFERENCE
    if speedup.value < 1:
        return Outcome.SLOWER
    if not replays_match:
        return Outcome.WRONG_RESULT
    if speedup.value < SLIGHT_SPEEDUP:
        return Outcome.SLIGHTLY_FASTER
    return Outcome.MODESTLY_FASTER if speedup.value < MODEST_SPEEDUP else Outcome.FASTER
