"""Profiler overhead: the same step timed with nothing attached, and under each tool."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.timings import Nanoseconds, StepTiming


class Observer(StrEnum):
    """What was attached to the process while its steps were timed."""

    NONE = "none"
    EVENTS = "events"
    """CUDA events, recorded before and after each step."""
    PROFILER = "torch-profiler"
    """torch.profiler with CPU and CUDA activities, which attaches CUPTI."""
    STOPPED = "torch-profiler-stopped"
    """The same process after its torch.profiler was stopped: CUPTI stays attached."""
    GRAPH_LEVEL = "cupti-graph"
    """CUPTI, one record for each launch of a graph (CUPTI_ACTIVITY_KIND_GRAPH_TRACE)."""
    NODE_LEVEL = "cupti-node"
    """CUPTI, one record for each node that a graph runs (CONCURRENT_KERNEL, MEMCPY, MEMSET)."""


class Observed(Struct, frozen=True, forbid_unknown_fields=True):
    """One series of steps in one process."""

    observer: Observer
    """What was attached."""
    process: Count
    """Numbers the processes in the order in which they ran."""
    source: str | None
    """The tool and its version; None where nothing was attached."""
    steps: tuple[StepTiming, ...]
    """A row for each synchronised step; what the observer itself does within a step (the recording
    of events) is in it."""
    interval_ns: Nanoseconds
    """Wall time of as many steps without a wait between them, the wait at the end included, divided
    by their number."""
    device_ns: tuple[Nanoseconds, ...]
    """The step's work queued behind a kernel that spins, between two CUDA events, so that its
    launch is not in it; a step whose launch took longer than the spinning has no row."""
    reported_ns: tuple[Nanoseconds, ...]
    """What the tool itself says of the GPU time of each synchronised step, from the begin of its
    first piece of work to the end of its last."""
    records: Count | None
    """How many records of work on the GPU the tool made of these steps; None for one that makes
    none."""


class ObserverPass(Struct, frozen=True, forbid_unknown_fields=True):
    """observers.json: the same steps under each observer, each in a process of its own, the first
    and the last with nothing attached. ``iterations`` steps were timed in each series."""

    iterations: Count
    observed: tuple[Observed, ...]
