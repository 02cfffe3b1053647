"""One figure held against a baseline's: exact counts as they are, times by resampling both
series."""

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
"""Probability left out at either end of an interval: a time is worse when 99.5% of the resampled
ratios say so. It is stricter than the 95% intervals of a comparison, because a gate asks about many
figures, of every commit."""

_RESAMPLES: Final = 1_000
_SEED: Final = 20_261_123

LEAST_NS: Final = 1_000
"""A median that grew by less is never an offence: that much of a launch's few microseconds is the
clock, the cache and the interpreter."""


class Verdict(StrEnum):
    """What became of a figure."""

    WORSE = "worse"
    UNSURE = "unsure"
    """Its series are too noisy to exclude that it is worse than allowed."""
    WITHIN = "within the limit"
    BETTER = "better"


class GatedFigure(Struct, frozen=True):
    """One figure of one run beside the baseline's; lower is better for all."""

    run: str
    """Name of the run."""
    metric: Metric
    """What is gated."""
    before: float
    """In the baseline, in the metric's unit; of several recordings the worst."""
    now: float
    """In the experiment."""
    change: float | None
    """(now - before) / before; None where before is 0."""
    low: float | None
    """Lower end of the change's 99% interval; None for exact figures."""
    high: float | None
    """Upper end of it; None for exact figures."""
    verdict: Verdict
    """What became of it."""
    key: str | None = None
    """The family and the key of the graphs that it is of alone; None where it is of the whole
    run."""

    @property
    def exact(self) -> bool:
        """Whether it is a count that has no spread."""
        return self.low is None

    @property
    def title(self) -> str:
        """What it is called."""
        return self.metric.title if self.key is None else f"Replay of {self.key}"


class TimeSeries(Struct, frozen=True):
    """A time of one run, in ns."""

    processes: Sequence[Sequence[int]]
    """The iterations of each process that it was timed in, one of them at least."""
    neighbours_alike: bool = True
    """Whether an iteration has something in common with the next; not so samples that lie far
    apart, of one process."""

    @property
    def median(self) -> float:
        """Over the iterations of all processes."""
        return float(np.median(self._values))

    def resampled_medians(self, stream: int) -> Floats:
        """Medians of bootstrap resamples, which draw processes where there are several, and in each
        of them stretches of iterations; ``stream`` keeps two series apart. Shape (resamples,)."""
        if self.neighbours_alike:
            return resampled_process_medians(self.processes, stream)
        generator = np.random.Generator(np.random.PCG64([_SEED, stream]))
        return independent_medians(self._values, _RESAMPLES, generator)

    @property
    def _values(self) -> Floats:
        parts = [np.asarray(part, dtype=np.float64) for part in self.processes]
        return np.concatenate(parts)


def hold_count(run: str, metric: str, before: float, now: float, limit: float) -> GatedFigure:
    """One exact figure of one run held against the baseline's."""
    # Rounded, so that 105 is not more than 5% above 100.
    allowed = round(before * (1 + limit), 6)
    better = Verdict.BETTER if now < before else Verdict.WITHIN
    verdict = Verdict.WORSE if now > allowed else better
    change = (now - before) / before if before else None
    return GatedFigure(run, METRICS[metric], before, now, change, None, None, verdict)


def hold_times(
    run: str, metric: str, before: TimeSeries, now: TimeSeries, limit: float, key: str | None = None
) -> GatedFigure | Missing:
    """One time of one run, or of its graphs of one ``key``, held against the baseline's.

    The interval of the change comes from bootstraps of both medians (sample_statistics.py).
    """
    own, other = now.median, before.median
    befores = before.resampled_medians(0)
    nows = now.resampled_medians(1)
    if bool(np.any(befores <= 0)):
        return Missing(Fact.STEP_TIMES, "half of the baseline's iterations took 0 ns")
    # A long series is resampled less often than a short one.
    draws = min(len(befores), len(nows))
    low, high = _change_interval(befores[:draws], nows[:draws])
    if low > limit and own - other > LEAST_NS:
        verdict = Verdict.WORSE
    elif high > limit and other * high > LEAST_NS:
        verdict = Verdict.UNSURE
    else:
        verdict = Verdict.BETTER if high < 0 else Verdict.WITHIN
    return GatedFigure(run, METRICS[metric], other, own, own / other - 1, low, high, verdict, key)


def _change_interval(befores: Floats, nows: Floats) -> tuple[float, float]:
    """The interval of a median's change, TAIL_PROBABILITY left out at either end, from resampled
    medians of both."""
    ratios = nows / befores - 1
    low, high = np.percentile(ratios, (100 * TAIL_PROBABILITY, 100 * (1 - TAIL_PROBABILITY)))
    return float(low), float(high)
