"""Recordings of launch costs: all life-cycle time samples of synthetic graphs.

Measurements and names follow NVIDIA's sample cudaGraphsPerfScaling; docs/reference/metrics.md
defines them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.run import Environment
from graphviz_dash.model.timings import Nanoseconds

LAUNCH_FORMAT_NAME: Final = "graphviz-dash-launch"
LAUNCH_FORMAT_VERSION: Final = 3


class LaunchMeasure(StrEnum):
    """Measurements of a graph, and of the same kernels launched one by one."""

    CAPTURE = "capture"
    INSTANTIATION = "instantiation"
    FIRST_LAUNCH_CPU = "first_launch_cpu"
    FIRST_LAUNCH = "first_launch"
    REPEAT_LAUNCH_CPU = "repeat_launch_cpu"
    REPEAT_LAUNCH = "repeat_launch"
    FIRST_LAUNCH_DEVICE = "first_launch_device"
    REPEAT_LAUNCH_DEVICE = "repeat_launch_device"
    UPLOAD_CPU = "upload_cpu"
    UPLOAD_DEVICE = "upload_device"
    STREAM_CPU = "stream_cpu"
    STREAM = "stream"
    STREAM_DEVICE = "stream_device"


class Topology(Struct, frozen=True, forbid_unknown_fields=True):
    """A synthetic graph of empty kernels in parallel chains."""

    width: Count
    """Chains."""
    length: Count
    """Nodes per chain."""
    single_root: bool
    """True for one additional kernel before all chains. Otherwise each chain has its own root."""
    middle_node: Literal["Memcpy", "Memset", "Host"] | None
    """Kind of node in the middle of the first chain. None if all nodes are kernels."""
    nodes: Count
    """Number of nodes reported by the driver."""


class LaunchSeries(Struct, frozen=True, forbid_unknown_fields=True):
    """All samples of one topology."""

    topology: Topology
    samples: dict[LaunchMeasure, tuple[Nanoseconds, ...]]
    """Samples in ns by measure, in measurement order."""
    absent: dict[LaunchMeasure, str]
    """Reasons, for measures that this topology does not support."""


class LaunchRecording(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of launch.json."""

    format: Literal["graphviz-dash-launch"]
    version: Literal[1, 2, 3]
    tool_version: str
    created: str
    """Time of measurement, ISO 8601 in UTC."""
    command: tuple[str, ...]
    environment: Environment
    trials: Count
    """Samples requested per series."""
    complete: bool
    call_ns: tuple[Nanoseconds, ...]
    """Times of cudaRuntimeGetVersion through cuda-python, in ns: an upper bound of the Python call
    overhead in each CPU time.
    """
    clock_ns: tuple[Nanoseconds, ...]
    """Times between two consecutive clock readings, in ns."""
    series: tuple[LaunchSeries, ...]
    """Samples, one series per topology."""
    process_trials: Annotated[int, Meta(ge=1)] | None = None
    """Consecutive samples measured by one process, graph by graph. None if one process measured all
    samples, interleaving the graphs (version 1).
    """


class PublishedTime(Struct, frozen=True, forbid_unknown_fields=True):
    """A published time of a synthetic graph with the older and the newer toolkit."""

    measure: LaunchMeasure
    chains: Count
    """Parallel chains, each with its own root."""
    length: Count
    """Nodes per chain."""
    before_us: Count | None
    """Time with the older toolkit, in µs. None if unpublished."""
    after_us: Count | None
    """Time with the newer toolkit, in µs. None if unpublished."""
    speedup: str | None
    """As printed. None if not printed."""
    source: str
    """Location in the publication. Values read from a chart are approximate."""


class PublishedLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A time that grows with the nodes of a linear chain."""

    measure: LaunchMeasure
    toolkit: str
    base_ns: Count
    """Fixed time, in ns."""
    slope_ns: Count
    """Time per node, in ns."""
    from_nodes: Count
    """Smallest number of nodes covered."""


class PublishedLaunch(Struct, frozen=True, forbid_unknown_fields=True):
    """Launch costs published by others, with an older and a newer toolkit."""

    title: str
    authors: str
    address: str
    gpu: str
    cpu: str
    older: str
    """Older toolkit with its driver."""
    newer: str
    """Newer toolkit with its driver."""
    reading_method: str
    """Method of reading values from charts."""
    times: tuple[PublishedTime, ...]
    lines: tuple[PublishedLine, ...]
    """Times that grow with the nodes, from the text of the publication."""
    statements: tuple[str, ...]
    """Further statements of the text, as full sentences."""
