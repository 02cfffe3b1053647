"""Comparison of one metric with its baseline: counts directly, times by resampling."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.metrics.registry import METRICS, Metric
from graphviz_dash.analysis.sample_statistics import (
    compute_resampled_process_medians,
    draw_independent_medians,
)
from graphviz_dash.features.efficiency.analysis.excess import EXCESS_METRIC
from graphviz_dash.model.absence import Fact, Missing

GATED_METRICS: Final = {**METRICS, EXCESS_METRIC.id: EXCESS_METRIC}
"""Metrics that a gate can compare, by id."""

TAIL_PROBABILITY: Final = 0.005
"""Probability excluded at either end of an interval.

Stricter than the 95% intervals of a comparison, because a gate tests many metrics per commit.
"""

_RESAMPLES: Final = 1_000
_SEED: Final = 20_261_123

MIN_REGRESSION_NS: Final = 1_000
"""Smallest increase of a median that can be a regression.

Clock, cache and interpreter noise reach this size.
"""


class Verdict(StrEnum):
    """Verdict on one metric."""

    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"
    """Too noisy to exclude a regression beyond the limit."""
    WITHIN_LIMIT = "within the limit"
    BETTER = "better"


class MetricChange(Struct, frozen=True):
    """One metric of one run compared with the baseline; lower is better."""

    run: str
    metric: Metric
    baseline: float
    """In the metric's unit; the worst of several recordings."""
    current: float
    change: float | None
    """(current - baseline) / baseline; None if the baseline is 0."""
    low: float | None
    """Lower end of the 99% interval of the change; None for exact values."""
    high: float | None
    """Upper end; None for exact values."""
    verdict: Verdict
    key: str | None = None
    """Family and key of the graphs; None for the whole run."""

    @property
    def is_exact(self) -> bool:
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
    is_correlated: bool = True
    """Consecutive iterations are correlated; False for sparse samples of one process."""

    @property
    def median(self) -> float:
        """Median over all processes."""
        return float(np.median(self._values))

    def resample_medians(self, stream: int) -> Floats:
        """Compute bootstrap medians, shape (resamples,).

        Draws processes, then blocks of iterations. Each ``stream`` is independent.
        """
        if self.is_correlated:
            return compute_resampled_process_medians(self.processes, stream)
        generator = np.random.Generator(np.random.PCG64([_SEED, stream]))
        return draw_independent_medians(self._values, _RESAMPLES, generator)

    @property
    def _values(self) -> Floats:
        parts = [np.asarray(part, dtype=np.float64) for part in self.processes]
        return np.concatenate(parts)


def compare_count(
    run: str, metric: Metric, baseline: float, current: float, limit: float
) -> MetricChange:
    """Compare one exact value with the baseline."""
    # Rounding keeps 105 within 5% of 100.
    allowed = round(baseline * (1 + limit), 6)
    below_limit = Verdict.BETTER if current < baseline else Verdict.WITHIN_LIMIT
    verdict = Verdict.WORSE if current > allowed else below_limit
    change = (current - baseline) / baseline if baseline else None
    return MetricChange(run, metric, baseline, current, change, None, None, verdict)


def compare_times(
    run: str,
    metric: str,
    baseline: TimeSeries,
    current: TimeSeries,
    limit: float,
    key: str | None = None,
) -> MetricChange | Missing:
    """Compare one time with the baseline, by bootstraps of both medians."""
    current_ns, baseline_ns = current.median, baseline.median
    baseline_medians = baseline.resample_medians(0)
    current_medians = current.resample_medians(1)
    if bool(np.any(baseline_medians <= 0)):
        return Missing(Fact.STEP_TIMES, "half of the baseline's iterations lasted 0 ns")
    # A long series has fewer resamples than a short one.
    draws = min(len(baseline_medians), len(current_medians))
    low, high = _compute_change_interval(baseline_medians[:draws], current_medians[:draws])
    if low > limit and current_ns - baseline_ns > MIN_REGRESSION_NS:
        verdict = Verdict.WORSE
    elif high > limit and baseline_ns * high > MIN_REGRESSION_NS:
        verdict = Verdict.INCONCLUSIVE
    else:
        verdict = Verdict.BETTER if high < 0 else Verdict.WITHIN_LIMIT
    return MetricChange(
        run,
        GATED_METRICS[metric],
        baseline_ns,
        current_ns,
        current_ns / baseline_ns - 1,
        low,
        high,
        verdict,
        key,
    )


def _compute_change_interval(
    baseline_medians: Floats, current_medians: Floats
) -> tuple[float, float]:
    ratios = current_medians / baseline_medians - 1
    low, high = np.percentile(ratios, (100 * TAIL_PROBABILITY, 100 * (1 - TAIL_PROBABILITY)))
    return float(low), float(high)
