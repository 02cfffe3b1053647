"""Baseline of an experiment: series and counts of its runs, without traces.

A baseline is one small JSON file for a repository or a CI cache.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.run import Environment, ExecutionMode, WorkloadInfo
from graphviz_dash.model.timings import Nanoseconds

BASELINE_FORMAT: Final = "graphviz-dash-baseline"
BASELINE_VERSION: Final = 2
"""Version 2 added ``processes`` and ``keys`` of runs. Version 1 files remain readable."""


class BaselineKey(Struct, frozen=True, forbid_unknown_fields=True):
    """Replays of one key of a graph family in a recorded program."""

    family: str
    axes: tuple[str, ...]
    """Names of the key's components."""
    key: tuple[Count, ...]
    """Values of the key's components."""
    replay_ns: tuple[Nanoseconds, ...]
    """GPU times of sampled replays, in ns."""


class BaselineRun(Struct, frozen=True, forbid_unknown_fields=True):
    """One run of a baseline."""

    name: str
    mode: ExecutionMode
    rank: Count | None
    """None if the experiment has a single process."""
    created: str
    """Time of collection, ISO 8601 in UTC."""
    workload: WorkloadInfo
    environment: Environment
    series: dict[str, tuple[Nanoseconds, ...]]
    """In ns per iteration, by metric id."""
    counts: dict[str, int | float]
    """Exact values by metric id."""
    absent: dict[str, str]
    """Reasons by metric id, for metrics without a series or count."""
    failure: str | None
    """First failure, on one line. None if nothing failed."""
    processes: dict[str, tuple[Count, ...]] = {}
    """Samples of the series per process, by metric id. Without metrics timed by a single process.
    """
    keys: tuple[BaselineKey, ...] = ()
    """Replays by key of a recorded program. Empty if no loop was recorded."""


class BaselineRecording(Struct, frozen=True, forbid_unknown_fields=True):
    """One recording of an experiment. ``name`` is the name of its folder."""

    name: str
    runs: tuple[BaselineRun, ...]


class Baseline(Struct, frozen=True, forbid_unknown_fields=True):
    """The baseline file."""

    format: Literal["graphviz-dash-baseline"]
    version: Literal[1, 2]
    tool_version: str
    """Version of graphviz-dash that wrote the file."""
    recordings: tuple[BaselineRecording, ...]
    """One or more recordings of the same experiment."""
