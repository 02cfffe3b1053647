"""Whether a trace holds work of a GPU at all. Where it holds none nothing is known of the GPU: it
was neither idle nor busy, and no counts of its work are zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphviz_dash.analysis.arrays import encode
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace


def missing_gpu_work(trace: Trace) -> Missing | None:
    """Why ``trace`` holds no kernel, copy or set; None where it holds any."""
    if len(trace.gpu):
        return None
    codes, names = encode(trace.runtime["name"])
    submits = [
        call_class(name) in (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH) for name in names
    ]
    launches = sum(submits[code] for code in codes.tolist())
    if not launches:
        return Missing(
            Fact.GPU_WORK,
            "the trace holds no work of a GPU, as one recorded without ProfilerActivity.CUDA",
        )
    return Missing(
        Fact.GPU_WORK,
        f"the trace holds {launches:,} launches and none of the work that they launched: CUPTI "
        "gave the profiler no records of the GPU, as where another profiler holds it or the "
        "process may not use it",
    )
