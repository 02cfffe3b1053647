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
    """The one-off costs of a graph in the clean pass, in ns by the wall clock unless a field says
    otherwise; the last two are taken after the timed series, by cudaGraphLaunch itself."""

    graph: str
    """Its id."""
    nodes: Count
    """How many it has."""
    capture_ns: Nanoseconds
    """From the begin to the end of the capture, the step's Python included."""
    instantiate_ns: Nanoseconds
    """cudaGraphInstantiate."""
    upload_ns: Nanoseconds | None
    """cudaGraphUpload to its completion; None where it could not be measured."""
    first_launch_cpu_ns: Nanoseconds
    """The first replay, to the call's return."""
    first_launch_ns: Nanoseconds
    """The first replay, to completion."""
    upload_cpu_ns: Nanoseconds | None = None
    """cudaGraphUpload to its return, on a further executable; None where it could not be
    measured."""
    upload_device_ns: Nanoseconds | None = None
    """The same between CUDA events behind a kernel that spins; None where it could not be
    measured."""
    first_launch_device_ns: Nanoseconds | None = None
    """The first launch of a further executable, between CUDA events behind a kernel that spins;
    None where it could not be measured."""
    repeat_launches: tuple[StepTiming, ...] = ()
    """Launches into an empty stream, to the call's return and to completion."""
    repeat_launch_device_ns: tuple[Nanoseconds, ...] = ()
    """Launches between CUDA events behind a kernel that spins."""


class CleanTimings(Struct, frozen=True, forbid_unknown_fields=True):
    """clean.json: measured in a process to which no profiler was ever attached."""

    warmup_ns: Nanoseconds
    """All warm-up iterations together, in ns."""
    steps: tuple[StepTiming, ...]
    """A row for each synchronised iteration."""
    back_to_back_ns: tuple[Nanoseconds, ...]
    """For each iteration of a second series, run without synchronising in between, the time between
    the CUDA events before and after it, in ns."""
    graphs: tuple[GraphLife, ...]
    """The one-off costs of each graph."""
