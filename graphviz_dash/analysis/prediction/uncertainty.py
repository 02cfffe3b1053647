"""Uncertainty of predictions, from error sources and errors on held-out workloads.

Method: split conformal prediction. The scale of an error is a weighted sum over its sources, with
weights from calibration workloads that are each predicted from the others. The half width of an
interval is the scale times a quantile of the scores (error / scale) of held-out workloads, so that
nine of ten are inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.prediction.eager_step import EagerStep
from graphviz_dash.analysis.prediction.replay_model import find_power_limited_items
from graphviz_dash.model.calibration import ErrorScale

CONFIDENCE: Final = 0.9
"""Intended coverage of an interval."""

MIN_SCALE: Final = 0.005

OTHER_GPU_FACTOR: Final = 1.5
"""Factor for intervals on a GPU other than the calibration's.

The errors of 11 workloads on an H100, predicted with an H200 calibration, were up to twice those
on the H200.
"""

_PER_NS: Final = 1e-3
"""Kernel density is counted per microsecond."""
_MAX_KERNEL_DENSITY: Final = 0.4
"""Kernel density above which errors do not grow (one per 2.5 µs)."""


class ErrorSource(StrEnum):
    """Sources of errors, relative to the step."""

    KERNELS = "kernels"
    """Kernels per microsecond, because gaps differ between graphs."""
    HEAT = "heat"
    """Share of long tensor core kernels, which reach the power limit."""
    COPIES = "copies"
    STREAMS = "streams"
    """1 if work runs on several streams, else 0."""


class Estimate(Struct, frozen=True):
    """A value with an interval that is intended to cover nine of ten cases."""

    value: float
    low: float | None = None
    """None without an interval."""
    high: float | None = None
    """None without an interval or if unbounded, such as a break-even that never occurs."""


def compute_error_sources(step: EagerStep, total_ns: float) -> dict[str, float]:
    """Return the amount of each error source in a step predicted to last ``total_ns``."""
    kind = np.array(step.kind)
    total = max(total_ns, 1.0)
    return {
        ErrorSource.KERNELS: min(
            step.kind.count("kernel") / (total * _PER_NS), _MAX_KERNEL_DENSITY
        ),
        ErrorSource.HEAT: min(
            float(step.duration[find_power_limited_items(step)].sum()) / total, 1.0
        ),
        ErrorSource.COPIES: min(float(step.duration[kind == "memcpy"].sum()) / total, 1.0),
        ErrorSource.STREAMS: float(step.stream_count > 1),
    }


def compute_error_scale(sources: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the scale of the relative error of a prediction."""
    scale = sum(weights.get(source, 0.0) * amount for source, amount in sources.items())
    return max(scale, MIN_SCALE)


def compute_conformal_quantile(scores: Sequence[float]) -> float:
    """Return the quantile of ``scores`` with CONFIDENCE coverage.

    Of n scores it is the ceil((n + 1) CONFIDENCE)-th, or the largest (Vovk et al., Algorithmic
    Learning in a Random World, 2005).
    """
    position = math.ceil((len(scores) + 1) * CONFIDENCE)
    return sorted(scores)[min(position, len(scores)) - 1]


def compute_half_widths(
    step: EagerStep, total_ns: float, errors: ErrorScale, other_gpu: bool
) -> tuple[float, float]:
    """Return the relative half widths of the intervals of step time and back-to-back time."""
    scale = compute_error_scale(compute_error_sources(step, total_ns), errors.weights)
    scale *= OTHER_GPU_FACTOR if other_gpu else 1.0
    return min(scale * errors.step, 1.0), min(scale * errors.interval, 1.0)
