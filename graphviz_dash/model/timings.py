"""What the clean pass timed: steps, and the life of each graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias, TypeVar

from msgspec import Struct

from graphviz_dash.model.graph import Count

T = TypeVar("T")

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


class GpuClocks(Struct, frozen=True, forbid_unknown_fields=True):
    """What NVML says of the GPU while it works, in MHz."""

    sm_mhz: Count
    """The clock of the multiprocessors."""
    max_sm_mhz: Count
    """The highest that this GPU can have."""
    memory_mhz: Count
    """The clock of its memory."""
    slowed_by: tuple[str, ...]
    """What holds the clocks down, of NVML's clocks event reasons those that slow a GPU at work:
    ``power cap``, ``power brake``, ``heat`` and ``hardware slowdown``."""


class CleanProcess(Struct, frozen=True, forbid_unknown_fields=True):
    """One of the processes of a clean pass, and the machine as it was beside it."""

    began_ns: Nanoseconds
    """When it began to time, in ns since 1970."""
    steps: Count
    """How many rows of ``CleanTimings.steps`` are its own."""
    back_to_back: Count
    """How many of ``CleanTimings.back_to_back_ns`` are."""
    cpu_loop_ns: tuple[Nanoseconds, ...]
    """What a fixed loop of Python took each time, half of them before the timed series and half
    after them, in ns."""
    gpu: GpuClocks | None
    """The GPU's clocks right after the timed series; None where NVML could not be asked."""


class CleanTimings(Struct, frozen=True, forbid_unknown_fields=True):
    """clean.json: measured in processes to which no profiler was ever attached."""

    warmup_ns: Nanoseconds
    """All warm-up iterations of the first process together, in ns."""
    steps: tuple[StepTiming, ...]
    """A row for each synchronised iteration, process by process."""
    back_to_back_ns: tuple[Nanoseconds, ...]
    """For each iteration of a second series, run without synchronising in between, the time between
    the CUDA events before and after it, in ns."""
    graphs: tuple[GraphLife, ...]
    """The one-off costs of each graph, in the first process."""
    processes: tuple[CleanProcess, ...] = ()
    """The processes in their order, each in turn with those of the other modes; empty where one
    process timed all, and the machine was not looked at."""

    @property
    def process_steps(self) -> tuple[tuple[StepTiming, ...], ...]:
        """``steps`` of each process."""
        return _divided(self.steps, [process.steps for process in self.processes])

    @property
    def process_back_to_back_ns(self) -> tuple[tuple[Nanoseconds, ...], ...]:
        """``back_to_back_ns`` of each process."""
        return _divided(self.back_to_back_ns, [process.back_to_back for process in self.processes])


def _divided(values: tuple[T, ...], counts: Sequence[int]) -> tuple[tuple[T, ...], ...]:
    ends = [*accumulate(counts)] or [len(values)]
    return tuple(values[first:last] for first, last in pairwise((0, *ends)))
