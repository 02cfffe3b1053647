"""How sure a promised saving is, and whether it is large enough to be told from what processes
differ by."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from msgspec import Struct

LEAST: Final = 0.6
MOST: Final = 2.1
"""What mending saved at least and at most, as multiples of what was promised: the second smallest
and the second largest of 23 mends on H200s (torch 2.11), so that the next one is between them with
a chance of at least 20 in 24 where it is like those (split conformal prediction; V. Vovk, A.
Gammerman and G. Shafer, "Algorithmic Learning in a Random World", 2005)."""

DIFFERS: Final = 0.07
"""Half of what the medians of four turns of one step differ by, as a part of it: the median of ten
steps on an H200. It stands for what processes differ by where a run was timed in one alone."""


class SavingRange(Struct, frozen=True):
    """What mending may save in each step, in ns."""

    low_ns: float
    """Four mends in five save more than the lower end and less than the upper one."""
    high_ns: float
    """Never more than the GPU is idle for, or copies inputs."""
    differs_ns: float
    """Half of what the step differs by from process to process."""
    is_clear: bool
    """Whether the promise is larger than that; a smaller one is too small to tell."""


def saving_range(
    saves_ns: float, step_ns: float, most_ns: float, process_medians: Sequence[float] = ()
) -> SavingRange:
    """The range of a promise.

    Args:
        saves_ns: what is promised, in ns of a clean step.
        step_ns: the clean step, in ns.
        most_ns: what mending could save at most, in ns.
        process_medians: the medians of the processes in which it was timed, in ns.
    """
    differs = DIFFERS * step_ns
    if len(process_medians) > 1:
        half = (max(process_medians) - min(process_medians)) / 2
        differs = half * step_ns / median(process_medians)
    low = min(LEAST * saves_ns, saves_ns - differs)
    high = max(MOST * saves_ns, saves_ns + differs)
    return SavingRange(
        max(0.0, low), max(saves_ns, min(high, most_ns)), differs, saves_ns > differs
    )
