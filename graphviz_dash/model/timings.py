"""Timings of the clean pass: steps, and the life cycle of each graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias, TypeVar

from msgspec import Struct

from graphviz_dash.model.graph import Count

T = TypeVar("T")

Nanoseconds: TypeAlias = Count


class StepTiming(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One iteration between two synchronisations."""

    wall_ns: Nanoseconds
    """Time from the step's call until its work completed, in ns."""
    launch_cpu_ns: Nanoseconds
    """Time from the step's call until it returned, in ns."""


class GraphLifecycle(Struct, frozen=True, forbid_unknown_fields=True):
    """One-time costs of a graph in the clean pass, as wall times in ns unless a field defines them
    otherwise. The last two fields are measured after the timed series, with cudaGraphLaunch."""

    graph: str
    nodes: Count
    capture_ns: Nanoseconds
    """Time of the capture, including the step's Python code."""
    instantiate_ns: Nanoseconds
    """Time of cudaGraphInstantiate."""
    upload_ns: Nanoseconds | None
    """Time of cudaGraphUpload until completion. None if unavailable."""
    first_launch_cpu_ns: Nanoseconds
    """Time of the first replay until the call returned."""
    first_launch_ns: Nanoseconds
    """Time of the first replay until completion."""
    upload_cpu_ns: Nanoseconds | None = None
    """Time of cudaGraphUpload until its return, on a second executable graph, in ns. None if
    unavailable.
    """
    upload_device_ns: Nanoseconds | None = None
    """GPU time of cudaGraphUpload between CUDA events behind a spinning kernel, in ns. None if
    unavailable.
    """
    first_launch_device_ns: Nanoseconds | None = None
    """GPU time of the first launch of a second executable graph, between CUDA events behind a
    spinning kernel, in ns. None if unavailable.
    """
    repeat_launches: tuple[StepTiming, ...] = ()
    """Launches into an empty stream."""
    repeat_launch_device_ns: tuple[Nanoseconds, ...] = ()
    """GPU times of launches, between CUDA events behind a spinning kernel."""


class GpuClocks(Struct, frozen=True, forbid_unknown_fields=True):
    """State of the busy GPU from NVML, clocks in MHz."""

    sm_mhz: Count
    """Clock of the multiprocessors, in MHz."""
    max_sm_mhz: Count
    """Maximum clock of this GPU, in MHz."""
    memory_mhz: Count
    """Memory clock, in MHz."""
    throttle_reasons: tuple[str, ...]
    """Active throttle reasons from NVML: `power cap`, `power brake`, `heat` and `hardware
    slowdown`.
    """


class CleanProcess(Struct, frozen=True, forbid_unknown_fields=True):
    """One process of a clean pass, and the state of the machine during it."""

    start_unix_ns: Nanoseconds
    """Start of its timings, in ns since 1970."""
    step_count: Count
    """Number of its rows in `steps` of the file."""
    back_to_back_count: Count
    """Number of its rows in `back_to_back_ns` of the file."""
    cpu_loop_ns: tuple[Nanoseconds, ...]
    """Times of a fixed Python loop, half before and half after the timed series, in ns."""
    gpu: GpuClocks | None
    """GPU clocks right after the timed series. None if unavailable."""


class CleanTimings(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of clean.json: timings from processes without a profiler."""

    warmup_ns: Nanoseconds
    """Total of the first process's warm-up, in ns."""
    steps: tuple[StepTiming, ...]
    """Synchronised iterations, process by process."""
    back_to_back_ns: tuple[Nanoseconds, ...]
    """Times between the CUDA events around each iteration of a second, unsynchronised series, in
    ns.
    """
    graphs: tuple[GraphLifecycle, ...]
    """One-time costs of each graph, from the first process."""
    processes: tuple[CleanProcess, ...] = ()
    """Processes in execution order, interleaved with those of other modes. Empty if one process
    timed everything.
    """

    @property
    def process_steps(self) -> tuple[tuple[StepTiming, ...], ...]:
        """``steps`` by process."""
        return _split_by_counts(self.steps, [process.step_count for process in self.processes])

    @property
    def process_back_to_back_ns(self) -> tuple[tuple[Nanoseconds, ...], ...]:
        """``back_to_back_ns`` by process."""
        return _split_by_counts(
            self.back_to_back_ns, [process.back_to_back_count for process in self.processes]
        )


def _split_by_counts(values: tuple[T, ...], counts: Sequence[int]) -> tuple[tuple[T, ...], ...]:
    ends = [*accumulate(counts)] or [len(values)]
    return tuple(values[first:last] for first, last in pairwise((0, *ends)))
