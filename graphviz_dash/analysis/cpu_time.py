"""The CPU time of traced steps as torch.profiler's own table totals it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.lanes import Ints, column
from graphviz_dash.analysis.steps import Step, exclusive_ns
from graphviz_dash.model.marks import STEP

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace


def self_cpu_ns(trace: Trace, taken: Sequence[Step]) -> Ints:
    """For each step the "Self CPU time total" of its events, in ns, shape (steps,).

    torch.profiler adds up what each operator, range and runtime call took beyond those within it;
    over a thread that is the union of their intervals, and so it is computed here. The range that
    marks the step is left out (it holds the whole step, Python's time included), the
    synchronisation at its end is not. Events belong to the step in which they begin.
    """
    annotations = trace.annotations
    is_step = annotations["name"].str.starts_with(STEP).fill_null(False).to_numpy()
    kept = np.flatnonzero(~is_step)
    tables = (
        (trace.ops, np.arange(len(trace.ops))),
        (annotations, kept),
        (trace.runtime, np.arange(len(trace.runtime))),
    )
    start, end, thread = (
        np.concatenate(parts)
        for parts in zip(
            *(
                (
                    column(table, "ts")[rows],
                    (column(table, "ts") + np.maximum(column(table, "dur"), 0))[rows],
                    column(table, "tid")[rows],
                )
                for table, rows in tables
            ),
            strict=True,
        )
    )
    order = np.lexsort((start, thread))
    start, end, thread = start[order], end[order], thread[order]
    threads = np.unique(thread)
    bounds = np.searchsorted(thread, threads), np.searchsorted(thread, threads, "right")
    totals = np.zeros(len(taken), dtype=np.int64)
    for low, high in zip(*bounds, strict=True):
        first = np.searchsorted(start[low:high], [step.start for step in taken]) + low
        last = np.searchsorted(start[low:high], [step.end for step in taken]) + low
        for place, (begin, stop) in enumerate(zip(first, last, strict=True)):
            totals[place] += exclusive_ns(start[begin:stop], end[begin:stop]).sum()
    return totals
