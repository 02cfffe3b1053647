"""Classification of CUDA (or HIP) runtime and driver API calls by name, and calls in captures.

Names are as written by the profiler: "cudaLaunchKernel", "cuLaunchKernelEx", "hipGraphLaunch",
with version suffixes such as "_v2" or "_ptsz". Intel's Unified Runtime has the prefix "ur" ("pi"
before oneAPI 2025). Its Level Zero calls ("ze...") are inside these and are not counted again.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.arrays import Flags, Ints, encode, get_column

if TYPE_CHECKING:
    import polars as pl


class CallClass(StrEnum):
    """Effect of a call on the GPU timeline."""

    KERNEL_LAUNCH = "kernel launch"
    GRAPH_LAUNCH = "graph launch"
    COPY = "copy or set"
    SYNCHRONISE = "synchronise"
    MEMORY = "memory"
    GRAPH = "graph life"
    OTHER = "other"


_PREFIX = r"^(cuda|cu|hip)"
# First match wins, because graph call names contain the words of other calls.
_PATTERNS = (
    (CallClass.GRAPH_LAUNCH, r"GraphLaunch"),
    (CallClass.GRAPH, r"(Graph|StreamBeginCapture|StreamEndCapture)"),
    (CallClass.KERNEL_LAUNCH, r"(Ext)?(Module)?Launch"),
    (CallClass.SYNCHRONISE, r"(Device|Stream|Event|Ctx)Synchronize"),
    (CallClass.COPY, r"(Memcpy|Memset)"),
    (
        CallClass.MEMORY,
        r"(Malloc|Free|HostAlloc|HostRegister|HostUnregister|Mem(Alloc|Free|Create|Release|Map|Unmap))",
    ),
)
_XPU_PREFIX = r"^(ur|pi)"
_XPU_PATTERNS = (
    (CallClass.KERNEL_LAUNCH, r"Enqueue(Cooperative)?KernelLaunch"),
    (CallClass.COPY, r"Enqueue(USM(Memcpy|Memset|Fill)|MemBuffer(Read|Write|Copy|Fill))"),
    (CallClass.SYNCHRONISE, r"(QueueFinish|EventWait|EventsWait)"),
    (CallClass.MEMORY, r"(ext)?USM(Device|Host|Shared)?(Alloc|Free)"),
)
_COMPILED = (
    *((call, re.compile(_PREFIX + pattern)) for call, pattern in _PATTERNS),
    *((call, re.compile(_XPU_PREFIX + pattern)) for call, pattern in _XPU_PATTERNS),
)


@lru_cache(maxsize=4096)
def get_call_class(name: str) -> CallClass:
    """Return the class of the API call ``name``; OTHER for calls that neither launch nor wait."""
    return next((call for call, pattern in _COMPILED if pattern.search(name)), CallClass.OTHER)


def find_captured(runtime: pl.DataFrame, instants: Ints) -> Flags:
    """Find the ``instants`` within a capture; one without an end lasts to the last call."""
    codes, names = encode(runtime["name"])
    mask = np.zeros(len(instants), dtype=np.bool_)
    bounds = [np.array([word in name for name in names], dtype=np.bool_) for word in _BOUNDS]
    if not len(names) or not bounds[0].any():
        return mask
    starts = get_column(runtime, "ts")
    begins, ends = (starts[flags[codes]] for flags in bounds)
    for begin in begins.tolist():
        end = ends[np.searchsorted(ends, begin) :]
        mask |= (instants >= begin) & (instants <= (end[0] if len(end) else starts[-1]))
    return mask


_BOUNDS = ("StreamBeginCapture", "StreamEndCapture")
