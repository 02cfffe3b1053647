"""Calibration of the replay model for one machine: fitted terms and the samples behind them."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import Count
from graphviz_dash.model.run import Environment
from graphviz_dash.model.timings import Nanoseconds

CALIBRATION_FORMAT: Final = "graphviz-dash-calibration"
CALIBRATION_VERSION: Final = 3


class ErrorScale(Struct, frozen=True, forbid_unknown_fields=True):
    """Scale of prediction errors (analysis/prediction/uncertainty.py)."""

    weights: dict[str, float]
    """Uncertain share of the step per source of errors, by name."""
    step: float
    """90th percentile of the error scores: half the interval of the step time, divided by its
    scale."""
    interval: float
    """The same for back-to-back steps."""


class CalibrationSample(Struct, frozen=True, forbid_unknown_fields=True):
    """One recorded workload: features of its eager trace and times of its clean runs."""

    name: str
    nodes: Count
    """Nodes of its graph."""
    streams: Count
    """Streams used by its kernels."""
    work_ns: float
    """Kernel time on the critical path of the step, in ns."""
    features: dict[str, float]
    """Factors of the model's terms (analysis/prediction/replay_model.py), by name."""
    sources: dict[str, float]
    """Amount per source of errors (analysis/prediction/uncertainty.py), by name."""
    step_ns: Nanoseconds
    """Median of the synchronised graphed step, in ns."""
    interval_ns: Nanoseconds
    """Median interval of back-to-back graphed steps, in ns."""
    replay_cpu_ns: Nanoseconds
    """Median launch CPU time of the replay, in ns."""
    predicted_ns: float
    """``step_ns`` predicted by terms fitted without this workload."""
    predicted_interval_ns: float
    """Back-to-back step time predicted by terms fitted without this workload, in ns."""
    eager_cpu_ns: Nanoseconds
    """Launch CPU time of the eager step in the clean pass, in ns."""
    capture_ns: Nanoseconds
    instantiate_ns: Nanoseconds
    first_launch_ns: Nanoseconds
    """Time of the graph's first launch until completion, in ns."""


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """The calibration file."""

    format: Literal["graphviz-dash-calibration"]
    version: Literal[2, 3]
    tool_version: str
    """Version of graphviz-dash that wrote the file."""
    created: str
    """Time of calibration, ISO 8601 in UTC."""
    recorded_at: str
    """Time of recording of the samples, ISO 8601 in UTC."""
    gpu: Gpu
    environment: Environment
    terms: dict[str, float]
    """Fitted terms of the step time by name, in ns (or factors)."""
    interval_fixed_ns: float
    """Value of the term ``fixed`` for back-to-back steps, in ns."""
    errors: ErrorScale
    replay_cpu_ns: tuple[float, float]
    """Launch CPU time of a replay: fixed part and part per node, in ns."""
    capture: tuple[float, float]
    """Capture time: fixed part in ns, and factor of the eager step's launch CPU time."""
    instantiate_ns: tuple[float, float]
    """Instantiation time: fixed part and part per node, in ns."""
    first_launch_ns: tuple[float, float]
    """First launch time beyond a replay: fixed part and part per node, in ns."""
    samples: tuple[CalibrationSample, ...]
    """Samples used to fit the terms."""
    holdout_samples: tuple[CalibrationSample, ...]
    """Held-out samples, whose errors set the width of intervals. Empty for cross-validation."""
