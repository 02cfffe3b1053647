"""Padding cost of a family: replay time beyond graphs of the requested sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.size_times import ReplaySamples, fit_size_times, interpolate_times
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    SpreadKind,
    compute_interval,
    draw_independent_medians,
)

_RESAMPLES: Final = 200
_SEED: Final = 20_261_123


class PaddingEffect(Enum):
    """Effect of padding on a step."""

    COST = auto()
    """Replays are slower than graphs of the requested sizes."""
    GAIN = auto()
    """Replays are faster, because larger sizes have faster kernels."""
    NO_DIFFERENCE = auto()
    """No significant difference."""


class PaddingCost(Struct, frozen=True):
    """Padding cost of some steps."""

    step_ns: float
    """Mean GPU time beyond a graph of the exact size, in ns; negative for a gain."""
    steps: int
    """Steps of known size, including fallbacks; at least one."""
    spread: Spread
    """95% interval of ``step_ns``."""

    @property
    def total_ns(self) -> float:
        """Padding cost of all steps, in ns."""
        return self.step_ns * self.steps

    @property
    def effect(self) -> PaddingEffect:
        """Significant effect of padding."""
        if self.spread.low > 0:
            return PaddingEffect.COST
        high = self.spread.high
        return PaddingEffect.GAIN if high is not None and high < 0 else PaddingEffect.NO_DIFFERENCE


def compute_padding_cost(
    samples: Sequence[ReplaySamples], real: Ints, padded: Ints, steps: int
) -> PaddingCost:
    """Compute the padding cost of ``steps`` steps from ``samples``.

    ``real`` and ``padded`` are the sizes of the steps with graphs, both (replays,).
    """
    pairs, counts = np.unique(np.stack((real, padded)), axis=1, return_counts=True)

    def compute_step_cost(times: Floats) -> Floats:
        sizes, curve = fit_size_times(samples, times)
        curve = np.moveaxis(curve, 0, -1)
        excess_ns = interpolate_times(pairs[1], sizes, curve) - interpolate_times(
            pairs[0], sizes, curve
        )
        return np.asarray(excess_ns @ counts / steps, dtype=np.float64)

    generator = np.random.Generator(np.random.PCG64(_SEED))
    medians = np.array([np.median(member.replay_ns) for member in samples])
    resampled_costs = [
        draw_independent_medians(member.replay_ns, _RESAMPLES, generator) for member in samples
    ]
    min_samples = min(len(member.replay_ns) for member in samples)
    spread = compute_interval(compute_step_cost(np.array(resampled_costs)), min_samples)
    return PaddingCost(float(compute_step_cost(medians)), steps, spread)


def combine_costs(costs: Sequence[PaddingCost]) -> PaddingCost:
    """Combine the padding costs of several families, which vary independently; at least one."""
    steps = sum(cost.steps for cost in costs)
    mean = sum(cost.total_ns for cost in costs) / steps
    error_below = math.hypot(*(cost.steps * (cost.step_ns - cost.spread.low) for cost in costs))
    error_above = math.hypot(*(cost.steps * (_get_high(cost) - cost.step_ns) for cost in costs))
    samples = min(cost.spread.samples for cost in costs)
    spread = Spread(
        mean - error_below / steps, mean + error_above / steps, SpreadKind.INTERVAL, samples
    )
    return PaddingCost(mean, steps, spread)


def _get_high(cost: PaddingCost) -> float:
    return cost.step_ns if cost.spread.high is None else cost.spread.high
