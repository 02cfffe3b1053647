"""Profiler overhead: the same step timed without a tool and with each tool attached."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.timings import Nanoseconds, StepTiming


class Observer(StrEnum):
    """Tool attached to the process during the timed steps."""

    NONE = "none"
    EVENTS = "events"
    """CUDA events, recorded before and after each step."""
    PROFILER = "torch-profiler"
    """torch.profiler with CPU and CUDA activities, which attaches CUPTI."""
    STOPPED = "torch-profiler-stopped"
    """The same process after torch.profiler stopped. CUPTI stays attached."""
    GRAPH_LEVEL = "cupti-graph"
    """CUPTI with one record per graph launch (CUPTI_ACTIVITY_KIND_GRAPH_TRACE)."""
    NODE_LEVEL = "cupti-node"
    """CUPTI with one record per executed graph node (CONCURRENT_KERNEL, MEMCPY, MEMSET)."""


class ObservedSeries(Struct, frozen=True, forbid_unknown_fields=True):
    """One series of steps in one process."""

    observer: Observer
    """The attached tool."""
    process: Count
    """Number of the process, in execution order."""
    source: str | None
    """Tool and version. None without a tool."""
    steps: tuple[StepTiming, ...]
    """Synchronised steps, including the observer's work within a step (recording events)."""
    interval_ns: Nanoseconds
    """Mean step time over the same number of steps without waits in between, in ns."""
    device_ns: tuple[Nanoseconds, ...]
    """GPU times between two CUDA events, queued behind a spinning kernel to exclude launch time, in
    ns. Steps that launch longer than it spins are omitted.
    """
    reported_ns: tuple[Nanoseconds, ...]
    """GPU times that the tool reports per step, from the start of the first to the end of the last
    work, in ns.
    """
    records: Count | None
    """Records of GPU work that the tool created. None without records."""


class ObserverPass(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of observers.json: the same steps under each observer, in separate processes. The
    first and last process run without a tool."""

    iterations: Count
    """Timed steps per series."""
    series: tuple[ObservedSeries, ...]
    """Series, in execution order."""
