"""How far a prediction may be off: by what makes errors, and by the errors of workloads that the
calibration had not seen.

Method: split conformal prediction. The scale of an error is a sum over its sources, with weights
found from the workloads of the calibration, each predicted from the others. The half width of an
interval is the scale times the quantile of the scores (errors over scales) of workloads that played
no part in the terms, so that nine of ten of such workloads lie inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.prediction.replay_model import is_hot

if TYPE_CHECKING:
    from graphviz_dash.analysis.prediction.eager_step import EagerStep
    from graphviz_dash.model.calibration import ErrorScale

CONFIDENCE: Final = 0.9
"""The share of cases that an interval is to hold."""

LEAST_SCALE: Final = 0.005
"""No step is predicted better than this, as a part of its time."""

OTHER_GPU: Final = 1.5
"""By how much intervals are wider on another GPU than the calibration's: 11 workloads on an H100,
predicted by an H200's calibration, were off by up to twice as much as on the H200."""

_PER_NS: Final = 1e-3
"""Kernels are counted in those for each microsecond."""
_MOST_KERNELS: Final = 0.4
"""Shorter kernels than one each 2.5 µs make no larger errors."""


class ErrorSource(StrEnum):
    """What makes errors, each in parts of the step."""

    KERNELS = "kernels"
    """Kernels for each microsecond: the gap between them differs from graph to graph."""
    HEAT = "heat"
    """The share of long kernels on tensor cores: the power limit."""
    COPIES = "copies"
    """The share of copies."""
    STREAMS = "streams"
    """1 where work runs on several streams, else 0."""


class Estimate(Struct, frozen=True):
    """A value with the interval that is to hold it in nine of ten cases."""

    value: float
    low: float | None = None
    """None where there is no interval."""
    high: float | None = None
    """None where there is no interval, or where it is open upwards: replays that may never
    come."""


def error_sources(step: EagerStep, total_ns: float) -> dict[str, float]:
    """How much there is of each source of errors in a step that is predicted to take
    ``total_ns``."""
    kind = np.array(step.kind)
    total = max(total_ns, 1.0)
    return {
        ErrorSource.KERNELS: min(step.count("kernel") / (total * _PER_NS), _MOST_KERNELS),
        ErrorSource.HEAT: min(float(step.duration[is_hot(step)].sum()) / total, 1.0),
        ErrorSource.COPIES: min(float(step.duration[kind == "memcpy"].sum()) / total, 1.0),
        ErrorSource.STREAMS: float(step.streams > 1),
    }


def error_scale(sources: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The scale of the relative error of a prediction."""
    scale = sum(weights.get(source, 0.0) * amount for source, amount in sources.items())
    return max(scale, LEAST_SCALE)


def conformal_quantile(scores: Sequence[float]) -> float:
    """The score below which a further one lies with CONFIDENCE: of n scores the ceil((n + 1)
    CONFIDENCE)-th, or the largest (Vovk et al., Algorithmic Learning in a Random World, 2005)."""
    place = math.ceil((len(scores) + 1) * CONFIDENCE)
    return sorted(scores)[min(place, len(scores)) - 1]


def half_widths(
    step: EagerStep, total_ns: float, errors: ErrorScale, other_gpu: bool
) -> tuple[float, float]:
    """The half widths of the intervals of the step time and of the time back to back, as parts of
    these."""
    scale = error_scale(error_sources(step, total_ns), errors.weights)
    scale *= OTHER_GPU if other_gpu else 1.0
    return min(scale * errors.step, 1.0), min(scale * errors.interval, 1.0)
