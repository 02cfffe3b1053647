"""Presence of GPU records in a trace.

Without any, the GPU was neither idle nor busy, and work counts are not zero but unknown.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from graphviz_dash.analysis.arrays import encode
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.trace import UNCATEGORIZED_SLICES, Trace
from graphviz_dash.units import pluralize

_SUBMISSION_WORDS: Final = {
    CallClass.KERNEL_LAUNCH: "kernels",
    CallClass.GRAPH_LAUNCH: "graphs",
    CallClass.COPY: "copies and sets",
}


def find_missing_gpu_work(trace: Trace) -> Missing | None:
    """Return why ``trace`` contains no kernel, copy or set; None if it contains any."""
    if len(trace.gpu):
        return None
    codes, names = encode(trace.runtime["name"])
    counts = Counter(get_call_class(names[code]) for code in codes.tolist())
    parts = [(word, counts[call]) for call, word in _SUBMISSION_WORDS.items() if counts[call]]
    launches = sum(count for _, count in parts)
    if not launches and len(codes):
        return Missing(
            Fact.GPU_WORK,
            "nothing was launched while the trace was recorded: it contains "
            f"{pluralize(len(codes), 'other call')} of the GPU's runtime and no GPU work",
        )
    if not launches and (others := trace.info.skipped.get(UNCATEGORIZED_SLICES)):
        return Missing(
            Fact.GPU_WORK,
            "the trace contains neither work of a known GPU nor calls that launch it; "
            f"{pluralize(others, 'slice')} without a category, as of other accelerators such as "
            "Ascend NPUs, are not read",
        )
    if not launches:
        return Missing(
            Fact.GPU_WORK,
            "the trace contains neither GPU work nor calls that launch it, as if only the CPU was "
            "recorded",
        )
    listing = ", ".join(f"{count:,} of {word}" for word, count in parts)
    kinds = f" ({listing})" if len(parts) > 1 else ""
    return Missing(
        Fact.GPU_WORK,
        f"the trace contains {pluralize(launches, 'launch')}{kinds} but none of their GPU work: "
        "CUPTI gave the profiler no GPU records, for example because another profiler uses "
        "it or the process lacks permission",
    )
