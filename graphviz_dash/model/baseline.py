"""What a later recording is held against: the series and counts of an experiment's runs, without
its traces. One small JSON file, for a repository or a CI cache.

Field meanings are documented for users in docs/how-to/fail-a-build.md.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.run import Environment, ExecutionMode, WorkloadInfo
from graphviz_dash.model.timings import Nanoseconds

BASELINE_FORMAT: Final = "graphviz-dash-baseline"
BASELINE_VERSION: Final = 2
"""Version 2 added ``processes`` and ``keys`` of runs; without them version 1 is read as it is."""


class BaselineKey(Struct, frozen=True, forbid_unknown_fields=True):
    """The replays of what serves one key of a family of graphs, in a recorded program."""

    family: str
    """The family's name."""
    axes: tuple[str, ...]
    """Names of the numbers of the key."""
    key: tuple[Count, ...]
    """Its numbers."""
    replay_ns: tuple[Nanoseconds, ...]
    """GPU time of its sampled replays, in ns."""


class BaselineRun(Struct, frozen=True, forbid_unknown_fields=True):
    """One run of a baseline."""

    name: str
    """The run's name in its experiment."""
    mode: ExecutionMode
    """The execution mode."""
    rank: Count | None
    """Of several ranks; None where there was one process."""
    created: str
    """When it was collected, ISO 8601 in UTC."""
    workload: WorkloadInfo
    """The workload and how often it ran."""
    environment: Environment
    """The machine and the software."""
    series: dict[str, tuple[Nanoseconds, ...]]
    """Times in ns, an iteration each, by the id of their metric."""
    counts: dict[str, int | float]
    """Exact values by the id of their metric."""
    absent: dict[str, str]
    """By metric, why it is in neither."""
    failure: str | None
    """What failed first, on one line; None where nothing did."""
    processes: dict[str, tuple[Count, ...]] = {}
    """By metric, how many of its series each process timed; without a metric that one timed
    alone."""
    keys: tuple[BaselineKey, ...] = ()
    """The replays of the keys of a recorded program's families; none where no loop was recorded."""


class BaselineRecording(Struct, frozen=True, forbid_unknown_fields=True):
    """An experiment, recorded once; ``name`` is its folder's."""

    name: str
    runs: tuple[BaselineRun, ...]


class Baseline(Struct, frozen=True, forbid_unknown_fields=True):
    """The file: one recording of the experiment, or several of the same thing."""

    format: Literal["graphviz-dash-baseline"]
    """The name of the format."""
    version: Literal[1, 2]
    """The version of the format."""
    tool_version: str
    """The graphviz-dash that wrote it."""
    recordings: tuple[BaselineRecording, ...]
    """One recording of the experiment, or several of the same thing."""
