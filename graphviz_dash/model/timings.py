"""What the clean pass timed: steps, and the life of each graph."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from graphviz_dash.model.graph import Count

Nanoseconds: TypeAlias = Count


class StepTiming(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One iteration between two synchronisations, in ns: from the step's call to its return
    (``launch_cpu_ns``), and from the call to the completed work (``wall_ns``)."""

    wall_ns: Nanoseconds
    launch_cpu_ns: Nanoseconds


class GraphLife(Struct, frozen=True, forbid_unknown_fields=True):
    """The one-off costs of a graph in the clean pass, in ns by the wall clock.

    ``capture_ns``: from the begin to the end of the capture, the step's Python included.
    ``instantiate_ns``: cudaGraphInstantiate. ``upload_ns``: cudaGraphUpload to its completion.
    ``first_launch_cpu_ns`` and ``first_launch_ns``: the first replay, to the call's return and to
    completion.

    After the timed series, by cudaGraphLaunch itself: ``repeat_launches`` into an empty stream, to
    the call's return and to completion; ``repeat_launch_device_ns`` between CUDA events behind a
    kernel that spins. On further executables of the graph: ``upload_cpu_ns`` to the return of
    cudaGraphUpload, ``upload_device_ns`` and ``first_launch_device_ns`` behind such a kernel.
    """

    graph: str
    nodes: Count
    capture_ns: Nanoseconds
    instantiate_ns: Nanoseconds
    upload_ns: Nanoseconds | None
    first_launch_cpu_ns: Nanoseconds
    first_launch_ns: Nanoseconds
    upload_cpu_ns: Nanoseconds | None = None
    upload_device_ns: Nanoseconds | None = None
    first_launch_device_ns: Nanoseconds | None = None
    repeat_launches: tuple[StepTiming, ...] = ()
    repeat_launch_device_ns: tuple[Nanoseconds, ...] = ()


class CleanTimings(Struct, frozen=True, forbid_unknown_fields=True):
    """clean.json: measured in a process to which no profiler was ever attached.

    ``steps``: a row for each synchronised iteration. ``back_to_back_ns``: for each iteration of a
    second series, run without synchronising in between, the time between the CUDA events before
    and after it. ``warmup_ns``: all warm-up iterations together.
    """

    warmup_ns: Nanoseconds
    steps: tuple[StepTiming, ...]
    back_to_back_ns: tuple[Nanoseconds, ...]
    graphs: tuple[GraphLife, ...]
