"""Classification of CUDA (or HIP) runtime and driver API calls by name.

Names are as written by the profiler: "cudaLaunchKernel", "cuLaunchKernelEx", "hipGraphLaunch",
with version suffixes such as "_v2" or "_ptsz". Intel's Unified Runtime has the prefix "ur" ("pi"
before oneAPI 2025). Its Level Zero calls ("ze...") are inside these and are not counted again.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache


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
