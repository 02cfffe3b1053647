"""How long each collective of a rank waited for the other ranks, told from its durations alone.

A collective that is called by all ranks ends on all of them together, so the rank that reaches it
last has the shortest kernel of it, and what a kernel takes longer than that one is waiting. No
clocks need to agree for this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.ranks.clocks import RankTrace, match_instances
from graphviz_dash.analysis.ranks.ranks import families, rank_trace

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment

ALONE: Final = -1


class RankWaits(Struct, frozen=True):
    """Of each row of a trace's GPU work, shape (rows,): ``waited``, the ns in which it waited for
    other ranks, and ``meeting``, which of its step's collectives of all ranks it is, numbered alike
    on all of them. 0 and ALONE for what is none."""

    waited: Ints
    meeting: Ints

    @classmethod
    def none(cls, rows: int) -> RankWaits:
        """Those of a trace of one process."""
        return cls(np.zeros(rows, dtype=np.int64), np.full(rows, ALONE, dtype=np.int64))


def rank_waits(experiment: Experiment) -> dict[str, RankWaits]:
    """By the run's name; of modes of which all ranks are traced, two at the least."""
    by_run: dict[str, RankWaits] = {}
    for runs in families(experiment).values():
        traces = [(run, rank_trace(run)) for run in runs]
        ranks = [trace for _, trace in traces if isinstance(trace, RankTrace)]
        if len(ranks) < len(runs) or len(ranks) < 2:
            continue
        instances = match_instances(ranks)
        took = instances.end - instances.start
        for index, (run, rank) in enumerate(zip(runs, ranks, strict=True)):
            waits = RankWaits.none(rank.trace.gpu.height)
            rows = instances.row[:, index]
            waits.waited[rows] = took[:, index] - took.min(axis=1)
            waits.meeting[rows] = instances.ordinal
            by_run[run.name] = waits
    return by_run
