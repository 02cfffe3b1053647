"""How long each collective of a rank waited for the other ranks, told from its durations alone.

A collective that is called by all ranks ends on all of them together, so the rank that reaches it
last has the shortest kernel of it, and what a kernel takes longer than that one is waiting. No
clocks need to agree for this. A rank comes later than another because its GPU worked for longer
since the collective before, or because it stood idle for longer: its CPU launched later. The
profiler lengthens the second and leaves the first as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.lanes import Ints
from graphviz_dash.analysis.rank_clocks import Instances, RankTrace, match_instances
from graphviz_dash.analysis.ranks import compute_lane, families, trace_of

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment


@dataclass(frozen=True)
class RankWaits:
    """Of each row of a trace's GPU work, in ns, shape (rows,): ``total``, the time in which it
    waited for other ranks, 0 for what is no collective of all of them; and of this ``by_work``,
    which the longer GPU work of the last rank explains."""

    total: Ints
    by_work: Ints


def rank_waits(experiment: Experiment) -> dict[str, RankWaits]:
    """By the run's name; of modes of which several ranks are traced."""
    found: dict[str, RankWaits] = {}
    for runs in families(experiment).values():
        traces = [(run, trace_of(run)) for run in runs]
        ranks = [trace for _, trace in traces if isinstance(trace, RankTrace)]
        if len(ranks) < len(runs) or len(ranks) < 2:
            continue
        instances = match_instances(ranks)
        if not len(instances):
            continue
        took = instances.end - instances.start
        waits = took - took.min(axis=1)[:, None]
        work = _work_before(ranks, instances)
        last = took.argmin(axis=1)
        more = work[np.arange(len(last)), last][:, None] - work
        by_work = np.clip(more, 0, waits)
        for place, (run, rank) in enumerate(zip(runs, ranks, strict=True)):
            rows = instances.row[:, place]
            parts = np.zeros((2, rank.trace.gpu.height), dtype=np.int64)
            parts[0, rows], parts[1, rows] = waits[:, place], by_work[:, place]
            found[run.name] = RankWaits(parts[0], parts[1])
    return found


def _work_before(ranks: list[RankTrace], instances: Instances) -> Ints:
    """For each instance and rank how long the GPU worked since the collective before it, in ns."""
    found = np.zeros_like(instances.start)
    for place, rank in enumerate(ranks):
        lane = compute_lane(rank)
        if len(lane):
            begin = lane.busy_before(0, instances.start[1:, place])
            found[1:, place] = begin - lane.busy_before(0, instances.end[:-1, place])
    return found
