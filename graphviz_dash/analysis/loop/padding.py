"""What the steps of a family lost to padding: GPU time of their replays over that of graphs of the
sizes that were asked for, and how sure that is.

Both are medians of sampled replays, which vary from one to the next. The interval is that of the
same sum over resamples of these, so that a loss, or a gain, that is less than they vary is called
neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.size_times import ReplaySamples, size_times, times_at
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    SpreadKind,
    independent_medians,
    interval,
)

_RESAMPLES: Final = 200
_SEED: Final = 20_261_123


class PaddingEffect(Enum):
    """What padding does to a step."""

    LOSES = auto()
    """Its replays take longer than graphs of the sizes asked for would."""
    SAVES = auto()
    """They take less: larger sizes have faster kernels."""
    NEITHER = auto()
    """The difference is less than replays vary."""


class PaddingCost(Struct, frozen=True):
    """What padding took of some steps."""

    step_ns: float
    """GPU time of a step over that of a graph of its own size, a mean, in ns; negative where larger
    sizes replay faster."""
    steps: int
    """The steps of known size, those without a graph among them; at least one."""
    spread: Spread
    """The 95% interval of ``step_ns``."""

    @property
    def total_ns(self) -> float:
        """The same of all steps together."""
        return self.step_ns * self.steps

    @property
    def effect(self) -> PaddingEffect:
        """What padding does, as far as replays tell."""
        if self.spread.low > 0:
            return PaddingEffect.LOSES
        high = self.spread.high
        return PaddingEffect.SAVES if high is not None and high < 0 else PaddingEffect.NEITHER


def padding_cost(
    samples: Sequence[ReplaySamples], real: Ints, padded: Ints, steps: int
) -> PaddingCost:
    """What padding took of ``steps`` (one or more), of which some asked for the sizes ``real`` and
    were served by graphs of the sizes ``padded``, both of shape (replays,); ``samples`` (one or
    more) are the replays that were timed. The others had no graph."""
    pairs, counts = np.unique(np.stack((real, padded)), axis=1, return_counts=True)

    def of_a_step(times: Floats) -> Floats:
        seen, curve = size_times(samples, times)
        curve = np.moveaxis(curve, 0, -1)
        more = times_at(pairs[1], seen, curve) - times_at(pairs[0], seen, curve)
        return np.asarray(more @ counts / steps, dtype=np.float64)

    generator = np.random.Generator(np.random.PCG64(_SEED))
    medians = np.array([np.median(each.replay_ns) for each in samples])
    resampled = [independent_medians(each.replay_ns, _RESAMPLES, generator) for each in samples]
    fewest = min(len(each.replay_ns) for each in samples)
    spread = interval(of_a_step(np.array(resampled)), fewest)
    return PaddingCost(float(of_a_step(medians)), steps, spread)


def together(costs: Sequence[PaddingCost]) -> PaddingCost:
    """What padding took of the steps of several families, one or more, whose replays vary each for
    itself."""
    steps = sum(cost.steps for cost in costs)
    mean = sum(cost.total_ns for cost in costs) / steps
    below = math.hypot(*(cost.steps * (cost.step_ns - cost.spread.low) for cost in costs))
    above = math.hypot(*(cost.steps * (_high(cost) - cost.step_ns) for cost in costs))
    samples = min(cost.spread.samples for cost in costs)
    spread = Spread(mean - below / steps, mean + above / steps, SpreadKind.INTERVAL, samples)
    return PaddingCost(mean, steps, spread)


def _high(cost: PaddingCost) -> float:
    return cost.step_ns if cost.spread.high is None else cost.spread.high
