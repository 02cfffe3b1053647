"""Step time in the loop of a recorded program, and its pauses."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.metrics.thresholds import LONG_STEP_MEDIANS
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind, compute_percentiles
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.units import pluralize

if TYPE_CHECKING:
    from graphviz_dash.model.recording import Recording

_MAX_PAUSE_SHARE: Final = 0.05
"""Maximum share of steps that are pauses.

More long steps are part of the loop, such as a read of the loss in each tenth step, which waits for
the work of the others.
"""
_MIN_STEPS: Final = 8
"""Minimum number of steps for finding pauses."""
_MIN_BLOCKS: Final = 3
_RESAMPLES: Final = 1_000
_SEED: Final = 20_261_126


class RecordedStep(Struct, frozen=True):
    """Step of a program's loop, without pauses, in ns."""

    ns: float
    """Mean of the steps without a pause, including the final wait for the GPU; the median of all
    steps if ``is_median``."""
    spread: Spread | None
    """Interval of the mean; None for few steps, and if the CPU runs ahead of the GPU. Quartiles if
    ``is_median``.
    """
    pauses: int
    pause_ns: float
    is_median: bool = False
    """True if a few long steps take most of the time, so a mean describes no step."""


def compute_recorded_step(recording: Recording) -> RecordedStep | Missing:
    """Compute the step of the program's loop, and its pauses: a few much longer steps."""
    if recording.boundary_kind is None:
        return make_untimed("nothing in the program looked like a step")
    if not recording.step_ns:
        total = pluralize(recording.steps, "step")
        return make_untimed(f"no step was timed after the last capture ({total} in all)")
    if recording.profiler_active:
        return make_untimed(
            "a profiler had run in the process, which slows every launch from then on"
        )
    if recording.final_wait_ns is None:
        return make_untimed("the program ended before a synchronisation at the end of a step")
    times = np.array(recording.step_ns, dtype=np.float64)
    median = float(np.median(times))
    pauses = times > LONG_STEP_MEDIANS * median
    count = int(np.count_nonzero(pauses))
    if len(times) < _MIN_STEPS or count > max(1, _MAX_PAUSE_SHARE * len(times)):
        pauses, count = np.zeros(len(times), dtype=np.bool_), 0
    steps = times[~pauses]
    ns = (float(steps.sum()) + recording.final_wait_ns) / len(steps)
    # If the CPU runs ahead of the GPU, single steps only show how fast it launches.
    spread = _estimate_interval(steps, ns) if recording.final_wait_ns <= median else None
    return RecordedStep(ns, spread, count, max(float((times[pauses] - ns).sum()), 0.0))


def find_long_steps(recording: Recording) -> tuple[int, float]:
    """Return the number of steps above LONG_STEP_MEDIANS medians, and their share of the time."""
    times = np.array(recording.step_ns, dtype=np.float64)
    if not times.sum():
        return 0, 0.0
    long_times = times[times > LONG_STEP_MEDIANS * float(np.median(times))]
    return len(long_times), float(long_times.sum() / times.sum())


def compute_recorded_step_ns(recording: Recording) -> float | Missing:
    """Return the time per step in the program's loop, in ns."""
    step = compute_recorded_step(recording)
    return step if isinstance(step, Missing) else step.ns


def _estimate_interval(steps: Floats, ns: float) -> Spread | None:
    """Estimate the 95% interval of the mean ``ns`` from blocks of consecutive steps, which may
    depend on each other; None for few steps.
    """
    blocks = isqrt(len(steps))
    if blocks < _MIN_BLOCKS:
        return None
    means = np.array([block.mean() for block in np.array_split(steps, blocks)])
    draws = np.random.default_rng(_SEED).integers(0, blocks, size=(_RESAMPLES, blocks))
    deviations = means[draws].mean(axis=1) - means.mean()
    low, high = compute_percentiles(deviations, (2.5, 97.5))
    return Spread(ns + min(low, 0.0), ns + max(high, 0.0), SpreadKind.INTERVAL, len(steps))


def make_untimed(reason: str) -> Missing:
    """Return the reason why a step has no time."""
    return Missing(Fact.RECORDED_STEP, reason)
