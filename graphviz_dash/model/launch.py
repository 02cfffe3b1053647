"""A recording of launch costs: every sample of the life-cycle times of synthetic graphs.

The measurements and their names are those of NVIDIA's sample cudaGraphsPerfScaling;
docs/reference/metrics.md defines each.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.run import Environment
from graphviz_dash.model.timings import Nanoseconds

LAUNCH_FORMAT_NAME: Final = "graphviz-dash-launch"
LAUNCH_FORMAT_VERSION: Final = 2


class LaunchMeasure(StrEnum):
    """What is timed of each graph, and of the same kernels launched one by one."""

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
    """How many chains."""
    length: Count
    """Nodes of a chain."""
    single_root: bool
    """One more kernel before all chains; else each chain has a root of its own."""
    other: Literal["Memcpy", "Memset", "Host"] | None
    """The kind of the node that stands in the middle of the first chain instead of a kernel; None
    for kernels only."""
    nodes: Count
    """What the driver counts."""


class LaunchSeries(Struct, frozen=True, forbid_unknown_fields=True):
    """All samples of one topology in ns, in the order they were taken, by measure.

    A measure that cannot be taken of this topology is missing, with its reason in ``absent``.
    """

    topology: Topology
    samples: dict[LaunchMeasure, tuple[Nanoseconds, ...]]
    absent: dict[LaunchMeasure, str]


class LaunchRecording(Struct, frozen=True, forbid_unknown_fields=True):
    """launch.json."""

    format: Literal["graphviz-dash-launch"]
    """The name of the format."""
    version: Literal[1, 2]
    """The version of the format."""
    tool_version: str
    """The graphviz-dash that wrote it."""
    created: str
    """When it was measured, ISO 8601 in UTC."""
    command: tuple[str, ...]
    """What the user typed."""
    environment: Environment
    """The machine and the software."""
    trials: Count
    """How many samples of each series were asked for."""
    complete: bool
    """Whether all were taken."""
    call_ns: tuple[Nanoseconds, ...]
    """cudaRuntimeGetVersion through cuda-python, which does nothing: what calling from Python adds
    to each CPU time at most, in ns."""
    clock_ns: tuple[Nanoseconds, ...]
    """Two readings of the clock in a row, in ns."""
    series: tuple[LaunchSeries, ...]
    """All samples, a series for each topology."""
    process_trials: Annotated[int, Meta(ge=1)] | None = None
    """So many of each series, in their order, are of one process, the next of another, each of
    which took them of one graph after the other; None: one process took all, a trial of each graph
    in turn (version 1)."""


class PublishedFigure(Struct, frozen=True, forbid_unknown_fields=True):
    """A published time of a synthetic graph with the older and the newer toolkit."""

    measure: LaunchMeasure
    """What was timed."""
    chains: Count
    """How many parallel chains, each with a root of its own."""
    length: Count
    """Nodes of a chain."""
    before_us: Count | None
    """With the older toolkit, in µs as it was published; None where that was not."""
    after_us: Count | None
    """With the newer toolkit, in µs as it was published; None where that was not."""
    speedup: str | None
    """The improvement as it was printed; None where it was not."""
    source: str
    """Where in the publication it stands; a reading of a figure is approximate."""


class PublishedLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A time that grows with the nodes of a linear chain."""

    measure: LaunchMeasure
    """What was timed."""
    toolkit: str
    """The version of the toolkit."""
    base_ns: Count
    """The fixed time, in ns."""
    slope_ns: Count
    """The time of each node, in ns."""
    from_nodes: Count
    """The fewest nodes that it holds for."""


class PublishedLaunch(Struct, frozen=True, forbid_unknown_fields=True):
    """Launch costs that others published, with an older and a newer toolkit."""

    title: str
    """Of the publication."""
    authors: str
    """Who published them."""
    address: str
    """Where they stand."""
    gpu: str
    """The device that they were measured on."""
    cpu: str
    """The processor that they were measured on."""
    older: str
    """The older toolkit, with its driver."""
    newer: str
    """The newer toolkit, with its driver."""
    read_as: str
    """How the figures were read."""
    figures: tuple[PublishedFigure, ...]
    """Single times."""
    lines: tuple[PublishedLine, ...]
    """Times that grow with the nodes, from the publication's text."""
    statements: tuple[str, ...]
    """What its text says besides, whole sentences."""
