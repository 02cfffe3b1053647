"""Time that each collective of a rank waited for the other ranks, from durations only.

A collective of all ranks ends on all of them together. The last rank to arrive therefore has the
shortest kernel, and the excess over it is waiting. No clock alignment is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.ranks.clocks import RankTrace, match_collectives
from graphviz_dash.analysis.ranks.ranks import build_rank_trace, group_rank_families

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment

NO_MEETING: Final = -1


class RankWaits(Struct, frozen=True):
    """Waits per row of a trace's GPU work, shape (rows,).

    ``wait_ns`` is the time in ns waiting for other ranks; ``meeting`` numbers the collectives of
    all ranks within the step, equally on all ranks. Other rows have 0 and NO_MEETING.
    """

    wait_ns: Ints
    meeting: Ints

    @classmethod
    def create_empty(cls, rows: int) -> RankWaits:
        """Return the waits of a single-process trace."""
        return cls(np.zeros(rows, dtype=np.int64), np.full(rows, NO_MEETING, dtype=np.int64))


def compute_rank_waits(experiment: Experiment) -> dict[str, RankWaits]:
    """Return the waits by run name, for modes with traces of all ranks (at least two)."""
    by_run: dict[str, RankWaits] = {}
    for runs in group_rank_families(experiment).values():
        traces = [(run, build_rank_trace(run)) for run in runs]
        ranks = [trace for _, trace in traces if isinstance(trace, RankTrace)]
        if len(ranks) < len(runs) or len(ranks) < 2:
            continue
        instances = match_collectives(ranks)
        duration_ns = instances.end - instances.start
        for index, (run, rank) in enumerate(zip(runs, ranks, strict=True)):
            waits = RankWaits.create_empty(rank.trace.gpu.height)
            rows = instances.row[:, index]
            waits.wait_ns[rows] = duration_ns[:, index] - duration_ns.min(axis=1)
            waits.meeting[rows] = instances.ordinal
            by_run[run.name] = waits
    return by_run
