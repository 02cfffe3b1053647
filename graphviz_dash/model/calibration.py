"""A calibration: what a replay takes beyond its kernels on one machine, and what that was found
from.

Field meanings are documented for users in docs/explanation/prediction.md.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.run import Environment, Gpu
from graphviz_dash.model.timings import Nanoseconds

CALIBRATION_FORMAT: Final = "graphviz-dash-calibration"
CALIBRATION_VERSION: Final = 2


class ErrorScale(Struct, frozen=True, forbid_unknown_fields=True):
    """How far predictions are off (analysis/prediction/uncertainty.py)."""

    weights: dict[str, float]
    """The share of the step that each source of errors makes uncertain, by its name."""
    step: float
    """The score below which nine of ten checked workloads lie: half an interval of the step time
    over its scale."""
    interval: float
    """The same back to back."""


class CalibrationSample(Struct, frozen=True, forbid_unknown_fields=True):
    """One workload that was recorded: what its eager trace says, and what was measured clean."""

    name: str
    """The workload's name."""
    nodes: Count
    """How many nodes its graph has."""
    streams: Count
    """On how many streams its kernels ran."""
    work_ns: float
    """The time of its kernels along the longest way through the step, in ns."""
    features: dict[str, float]
    """The factors of the terms (analysis/prediction/replay_model.py), by name."""
    sources: dict[str, float]
    """How much there is of each source of errors (analysis/prediction/uncertainty.py), by name."""
    step_ns: Nanoseconds
    """Median of the synchronised graphed step, in ns."""
    interval_ns: Nanoseconds
    """Median of the graphed step back to back, in ns."""
    replay_cpu_ns: Nanoseconds
    """Median launch CPU time of the replay, in ns."""
    predicted_ns: float
    """The step time predicted by terms that were found without this workload, in ns."""
    predicted_interval_ns: float
    """The same back to back, in ns."""
    eager_cpu_ns: Nanoseconds
    """The clean launch CPU time of the eager step, in ns."""
    capture_ns: Nanoseconds
    """What the graph's capture took, in ns."""
    instantiate_ns: Nanoseconds
    """What its instantiation took, in ns."""
    first_launch_ns: Nanoseconds
    """What its first launch took to completion, in ns."""


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    format: Literal["graphviz-dash-calibration"]
    """The name of the format."""
    version: Literal[2]
    """The version of the format."""
    tool_version: str
    """The graphviz-dash that wrote it."""
    created: str
    """When it was made, ISO 8601 in UTC."""
    recorded: str
    """When its samples were recorded, ISO 8601 in UTC."""
    gpu: Gpu
    """The device that it holds for."""
    environment: Environment
    """The machine and the software of the recording."""
    terms: dict[str, float]
    """Times in ns (or factors) of the step time, by the name of their term."""
    interval_fixed_ns: float
    """Takes the place of the term ``fixed`` back to back, in ns."""
    errors: ErrorScale
    """How far predictions are off."""
    replay_cpu_ns: tuple[float, float]
    """Launch CPU time of a replay: a fixed time and one for each node, in ns."""
    capture: tuple[float, float]
    """A fixed time in ns, and a factor of the eager step's launch CPU time."""
    instantiate_ns: tuple[float, float]
    """A fixed time and one for each node, in ns."""
    first_launch_ns: tuple[float, float]
    """Beyond a replay: a fixed time and one for each node, in ns."""
    samples: tuple[CalibrationSample, ...]
    """What all this was fitted to."""
    checks: tuple[CalibrationSample, ...]
    """What no term was fitted to: how far these were off gives the width of intervals; none where
    the samples give it, each predicted from the others."""
