"""Comparison of one metric with its baseline: counts directly, times by resampling."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.metrics.registry import METRICS, Metric
from graphviz_dash.analysis.sample_statistics import independent_medians, resampled_process_medians
from graphviz_dash.model.absence import Fact, Missing

TAIL_PROBABILITY: Final = 0.005
"""Probability excluded at either end of an interval.

Stricter than the 95% intervals of a comparison, because a gate tests many metrics per commit.
"""

_RESAMPLES: Final = 1_000
_SEED: Final = 20_261_123

LEAST_NS: Final = 1_000
"""Smallest increase of a median that can be a regression, in ns.

Clock, cache and interpreter noise reach this size.
"""


class Verdict(StrEnum):
    """Verdict on one metric."""

    WORSE = "worse"
    UNSURE = "unsure"
    """Too noisy to exclude a regression beyond the limit."""
    WITHIN = "within the limit"
    BETTER = "better"


class GatedFigure(Struct, frozen=True):
    """One metric of one run compared with the baseline; lower is better."""

    run: str
    """Name of the run."""
    metric: Metric
    """Gated metric."""
    before: float
    """Baseline value in the metric's unit; the worst of several recordings."""
    now: float
    """Value in the experiment."""
    change: float | None
    """(now - before) / before; None if before is 0."""
    low: float | None
    """Lower end of the 99% interval of the change; None for exact values."""
    high: float | None
    """Upper end of the interval; None for exact values."""
    verdict: Verdict
    """Verdict on the change."""
    key: str | None = None
    """Family and key of the graphs; None if the value covers the whole run."""

    @property
    def exact(self) -> bool:
        """True for a count, which has no spread."""
        return self.low is None

    @property
    def title(self) -> str:
        """Display name."""
        return self.metric.title if self.key is None else f"Replay of {self.key}"


class TimeSeries(Struct, frozen=True):
    """Times of one run, in ns."""

    processes: Sequence[Sequence[int]]
    """Iterations by process; at least one process."""
    neighbours_alike: bool = True
    """True if consecutive iterations are correlated; False for sparse samples of one process."""

    @property
    def median(self) -> float:
        """Median over the iterations of all processes."""
        return float(np.median(self._values))

    def resampled_medians(self, stream: int) -> Floats:
        """Compute medians of bootstrap resamples, shape (resamples,).

        Draws processes, then blocks of iterations. Each ``stream`` is independent.
        """
        if self.neighbours_alike:
            return resampled_process_medians(self.processes, stream)
        generator = np.random.Generator(np.random.PCG64([_SEED, stream]))
        return independent_medians(self._values, _RESAMPLES, generator)

    @property
    def _values(self) -> Floats:
        parts = [np.asarray(part, dtype=np.float64) for part in self.processes]
        return np.concatenate(parts)


def hold_count(run: str, metric: str, before: float, now: float, limit: float) -> GatedFigure:
    """Compare one exact value with the baseline."""
    # Rounding keeps 105 within 5% of 100.
    allowed = round(before * (1 + limit), 6)
    below_limit = Verdict.BETTER if now < before else Verdict.WITHIN
    verdict = Verdict.WORSE if now > allowed else below_limit
    change = (now - before) / before if before else None
    return GatedFigure(run, METRICS[metric], before, now, change, None, None, verdict)


def hold_times(
    run: str, metric: str, before: TimeSeries, now: TimeSeries, limit: float, key: str | None = None
) -> GatedFigure | Missing:
    """Compare one time with the baseline, by bootstraps of both medians."""
    current_ns, baseline_ns = now.median, before.median
    baseline_medians = before.resampled_medians(0)
    current_medians = now.resampled_medians(1)
    if bool(np.any(baseline_medians <= 0)):
        return Missing(Fact.STEP_TIMES, "half of the baseline's iterations lasted 0 ns")
    # A long series has fewer resamples than a short one.
    draws = min(len(baseline_medians), len(current_medians))
    low, high = _change_interval(baseline_medians[:draws], current_medians[:draws])
    if low > limit and current_ns - baseline_ns > LEAST_NS:
        verdict = Verdict.WORSE
    elif high > limit and baseline_ns * high > LEAST_NS:
        verdict = Verdict.UNSURE
    else:
        verdict = Verdict.BETTER if high < 0 else Verdict.WITHIN
    return GatedFigure(
        run,
        METRICS[metric],
        baseline_ns,
        current_ns,
        current_ns / baseline_ns - 1,
        low,
        high,
        verdict,
        key,
    )


def _change_interval(befores: Floats, nows: Floats) -> tuple[float, float]:
    ratios = nows / befores - 1
    low, high = np.percentile(ratios, (100 * TAIL_PROBABILITY, 100 * (1 - TAIL_PROBABILITY)))
    return float(low), float(high)
