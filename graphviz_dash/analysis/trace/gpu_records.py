"""Presence of GPU records in a trace.

Without any, the GPU state is unknown: it was neither idle nor busy, and work counts are not
zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphviz_dash.analysis.arrays import encode
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace


def find_missing_gpu_work(trace: Trace) -> Missing | None:
    """Return why ``trace`` contains no kernel, copy or set; None if it contains any."""
    if len(trace.gpu):
        return None
    codes, names = encode(trace.runtime["name"])
    submits = [
        get_call_class(name) in (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH, CallClass.COPY)
        for name in names
    ]
    launches = sum(submits[code] for code in codes.tolist())
    if not launches and len(codes):
        return Missing(
            Fact.GPU_WORK,
            f"nothing was launched while the trace was recorded: it contains {len(codes):,} other "
            "calls of the GPU's runtime and no GPU work",
        )
    if not launches:
        return Missing(
            Fact.GPU_WORK,
            "the trace contains neither GPU work nor calls that launch it, as if only the CPU was "
            "recorded",
        )
    return Missing(
        Fact.GPU_WORK,
        f"the trace contains {launches:,} launches but none of their GPU work: CUPTI gave the "
        "profiler no GPU records, for example because another profiler uses it or the process "
        "lacks permission",
    )
