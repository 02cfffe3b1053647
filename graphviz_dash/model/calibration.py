"""A calibration: what a replay takes beyond its kernels on one machine, and what that was found
from.

Field meanings are documented for users in docs/predict.md.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.run import Environment, Gpu
from graphviz_dash.model.timings import Nanoseconds

CALIBRATION_FORMAT: Final = "graphviz-dash-calibration"
CALIBRATION_VERSION: Final = 1


class CalibrationSample(Struct, frozen=True, forbid_unknown_fields=True):
    """One workload that was recorded: what its eager trace says, and what was measured clean.

    ``features`` are the factors of the terms (analysis/prediction/replay_model.py), ``work_ns`` the
    time of its kernels along the longest way through the step. ``step_ns`` and ``interval_ns`` are
    medians of the graphed step; ``predicted_ns`` is the step time predicted by a calibration that
    was made without this workload. The one-off costs are those of the graph, and ``eager_cpu_ns``
    the clean launch CPU time of the eager step.
    """

    name: str
    nodes: Count
    streams: Count
    work_ns: float
    features: dict[str, float]
    step_ns: Nanoseconds
    interval_ns: Nanoseconds
    replay_cpu_ns: Nanoseconds
    predicted_ns: float
    predicted_interval_ns: float
    eager_cpu_ns: Nanoseconds
    capture_ns: Nanoseconds
    instantiate_ns: Nanoseconds
    first_launch_ns: Nanoseconds


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. ``terms`` are times in ns (or factors) by the name of their term, of the step time;
    ``interval_fixed_ns`` takes the place of the term ``fixed`` back to back. ``error`` is the share
    of the prediction by which nine of ten samples were missed at most, predicted without them.

    ``replay_cpu_ns``, ``instantiate_ns`` and ``first_launch_ns`` (beyond a replay) are a fixed time
    and one for each node; ``capture`` is a fixed time and a factor of the eager step's launch CPU
    time.
    """

    format: Literal["graphviz-dash-calibration"]
    version: Literal[1]
    tool_version: str
    created: str
    recorded: str
    gpu: Gpu
    environment: Environment
    terms: dict[str, float]
    interval_fixed_ns: float
    error: float
    interval_error: float
    replay_cpu_ns: tuple[float, float]
    capture: tuple[float, float]
    instantiate_ns: tuple[float, float]
    first_launch_ns: tuple[float, float]
    samples: tuple[CalibrationSample, ...]
