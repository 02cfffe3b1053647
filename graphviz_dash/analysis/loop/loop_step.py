"""What a step of a recorded program with families of graphs takes in its own loop, where nothing
waited for the GPU at the end of the steps that were timed."""

from __future__ import annotations

from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.loop.loop_columns import CAPTURE, NONE, LoopColumns, loop_columns
from graphviz_dash.model.loop import ProgramLoop

_FEWEST: Final = 32
"""Steps from which their mean is told."""


def loop_step_ns(loop: ProgramLoop) -> float | None:
    """The mean time from one settled step of a family to the next of its thread, in ns; None of
    fewer than 32 steps, where no replay was timed on the GPU, and where replays take longer on the
    GPU than it is from one to the next: then the CPU runs ahead, and tells nothing."""
    columns = loop_columns(loop)
    rows = [
        columns.settled(np.flatnonzero((columns.family == family) & (columns.kind != CAPTURE)))
        for family in range(len(loop.families))
    ]
    timed = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    if len(timed) < _FEWEST:
        return None
    period, replay = _period_and_replay(columns, timed)
    if replay is None or replay > period:
        return None
    return float(columns.period_ns[timed].mean())


def _period_and_replay(columns: LoopColumns, timed: Ints) -> tuple[float, float | None]:
    """Of the steps at ``timed`` whose graphs were timed on the GPU the mean period, and the mean of
    the medians of their graphs, in ns; None where there are none."""
    which = columns.family * (1 + int(columns.member.max())) + columns.member
    sampled = columns.replayed & (columns.gpu_ns != NONE)
    medians = {
        member: float(np.median(columns.gpu_ns[sampled & (which == member)]))
        for member in np.unique(which[sampled]).tolist()
    }
    known = timed[columns.replayed[timed] & np.isin(which[timed], list(medians))]
    if not len(known):
        return 0.0, None
    replays = [medians[member] for member in which[known].tolist()]
    return float(columns.period_ns[known].mean()), sum(replays) / len(replays)
