"""What a later recording is held against: the series and counts of an experiment's runs, without
its traces. One small JSON file, for a repository or a CI cache.

Field meanings are documented for users in docs/gate.md.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.run import Environment, ExecutionMode, WorkloadInfo
from graphviz_dash.model.timings import Nanoseconds

BASELINE_FORMAT: Final = "graphviz-dash-baseline"
BASELINE_VERSION: Final = 1


class BaselineRun(Struct, frozen=True, forbid_unknown_fields=True):
    """One run. ``series`` are times in ns, an iteration each, and ``counts`` are exact, both by
    the id of their metric. ``absent`` says by metric why it is in neither. ``failure`` is what
    failed first, on one line."""

    name: str
    mode: ExecutionMode
    rank: Count | None
    created: str
    workload: WorkloadInfo
    environment: Environment
    series: dict[str, tuple[Nanoseconds, ...]]
    counts: dict[str, int | float]
    absent: dict[str, str]
    failure: str | None


class BaselineRecording(Struct, frozen=True, forbid_unknown_fields=True):
    """An experiment, recorded once; ``name`` is its folder's."""

    name: str
    runs: tuple[BaselineRun, ...]


class Baseline(Struct, frozen=True, forbid_unknown_fields=True):
    """The file: one recording of the experiment, or several of the same thing."""

    format: Literal["graphviz-dash-baseline"]
    version: Literal[1]
    tool_version: str
    recordings: tuple[BaselineRecording, ...]
