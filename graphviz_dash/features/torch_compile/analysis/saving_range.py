"""Interval of a predicted gain, and its significance relative to process variance."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from msgspec import Struct

MIN_GAIN_RATIO: Final = 0.6
MAX_GAIN_RATIO: Final = 2.1
"""Smallest and largest gain as a multiple of the prediction.

From 23 fixes on H200s (torch 2.11), with 20/24 coverage by split conformal prediction (V. Vovk, A.
Gammerman and G. Shafer, "Algorithmic Learning in a Random World", 2005).
"""

DEFAULT_PROCESS_VARIANCE: Final = 0.07
"""Half range of process medians, as a share of the step; median of ten steps (H200)."""


class GainRange(Struct, frozen=True):
    """Interval of the gain per step, in ns."""

    low_ns: float
    """Four of five fixes gain between the two ends."""
    high_ns: float
    """At most the idle time and input copies of the GPU."""
    process_variance_ns: float
    """Half range of the step time across processes."""
    is_significant: bool
    """True if the prediction exceeds ``process_variance_ns``; otherwise within noise."""


def compute_gain_range(
    gain_ns: float, step_ns: float, max_ns: float, process_medians: Sequence[float] = ()
) -> GainRange:
    """Compute the interval of a predicted gain per clean step.

    ``max_ns`` limits the gain; ``process_medians`` are step times by process, in ns.
    """
    half_range_ns = DEFAULT_PROCESS_VARIANCE * step_ns
    if len(process_medians) > 1:
        half = (max(process_medians) - min(process_medians)) / 2
        half_range_ns = half * step_ns / median(process_medians)
    low = min(MIN_GAIN_RATIO * gain_ns, gain_ns - half_range_ns)
    high = max(MAX_GAIN_RATIO * gain_ns, gain_ns + half_range_ns)
    return GainRange(
        max(0.0, low), max(gain_ns, min(high, max_ns)), half_range_ns, gain_ns > half_range_ns
    )
