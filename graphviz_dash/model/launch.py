"""A recording of launch costs: life-cycle times of toy graphs of many sizes, every sample kept.

The measurements and their names are those of NVIDIA's sample cudaGraphsPerfScaling; docs/metrics.md
defines each.
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
    """A toy graph of empty kernels: ``width`` chains of ``length`` nodes.

    ``single_root``: one more kernel before all chains; else each chain has a root of its own.
    ``other`` is the kind of the node that stands in the middle of the first chain in a kernel's
    place (Memcpy, Memset or Host), None for kernels only. ``nodes`` is what the driver counts.
    """

    width: Count
    length: Count
    single_root: bool
    other: Literal["Memcpy", "Memset", "Host"] | None
    nodes: Count


class LaunchSeries(Struct, frozen=True, forbid_unknown_fields=True):
    """All samples of one topology in ns, in the order they were taken, by measure.

    A measure that cannot be taken of this topology is missing, with its reason in ``absent``.
    """

    topology: Topology
    samples: dict[LaunchMeasure, tuple[Nanoseconds, ...]]
    absent: dict[LaunchMeasure, str]


class LaunchRecording(Struct, frozen=True, forbid_unknown_fields=True):
    """launch.json. ``trials`` is how many were asked for; ``complete`` whether all were taken.
    ``process_trials``: so many of each series, in their order, are of one process, the next of
    another, each of which took them of one graph after the other; None: one process took all, a
    trial of each graph in turn (version 1).

    ``call_ns``: cudaRuntimeGetVersion through cuda-python, which does nothing: what calling from
    Python adds to each CPU time at most. ``clock_ns``: two readings of the clock in a row.
    """

    format: Literal["graphviz-dash-launch"]
    version: Literal[1, 2]
    tool_version: str
    created: str
    command: tuple[str, ...]
    environment: Environment
    trials: Count
    complete: bool
    call_ns: tuple[Nanoseconds, ...]
    clock_ns: tuple[Nanoseconds, ...]
    series: tuple[LaunchSeries, ...]
    process_trials: Annotated[int, Meta(ge=1)] | None = None


class PublishedFigure(Struct, frozen=True, forbid_unknown_fields=True):
    """A time of a straight line of so many nodes with the toolkits before and after, in us as it
    was published. ``quoted_by``: how many documents that quote it were read."""

    measure: LaunchMeasure
    nodes: Count
    before_us: Count
    after_us: Count
    quoted_by: Count


class PublishedLine(Struct, frozen=True, forbid_unknown_fields=True):
    """``base_ns + slope_ns`` for each node of a straight line of ``from_nodes`` or more."""

    measure: LaunchMeasure
    toolkit: str
    base_ns: Count
    slope_ns: Count
    from_nodes: Count
    quoted_by: Count


class PublishedLaunch(Struct, frozen=True, forbid_unknown_fields=True):
    """Launch costs that others published, with their source and what of them is not here.

    ``read_as`` says how they came to be known. Toolkits are 11.8 before and 12.6 after.
    """

    title: str
    authors: str
    address: str
    gpu: str
    cpu: str
    read_as: str
    figures: tuple[PublishedFigure, ...]
    lines: tuple[PublishedLine, ...]
    absent: tuple[str, ...]
