"""Launches in a trace of graphs that the run does not hold: a library's own, or not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.arrays import column
from graphviz_dash.analysis.metrics.low_confidence import GraphSource, UnseenGraphs
from graphviz_dash.analysis.replays.replays import (
    identities_of,
    launch_correlations,
    launched_rows,
    match_replays,
)

if TYPE_CHECKING:
    from graphviz_dash.analysis.replays.replays import ReplayMatch
    from graphviz_dash.model.run import Run


def unseen_graphs(run: Run, match: ReplayMatch | None) -> UnseenGraphs | None:
    """The launches in the traced pass of ``run`` that are of no graph of its; None where there are
    none. Of a recorded program the recorder has counted its own launches, and of any other run they
    are those that look like none of its graphs. ``match`` are its matched replays, where they were
    computed before."""
    trace = run.replay_trace
    launches = 0 if trace is None else len(launch_correlations(trace)[0])
    if trace is None or not launches:
        return None
    durations = np.maximum(column(trace.gpu, "dur"), 0)
    if run.recording is None:
        source = GraphSource.IMPORT if run.manifest.sources else GraphSource.CAPTURE
        count = launches if not run.graphs else None
        if count and source is GraphSource.CAPTURE and run.mode.captures_graphs:
            # Its own, which could not be read: that is told as what the bundle lacks.
            return None
    else:
        source = GraphSource.RECORDER
        count = launches - sum(graph.window_replays for graph in run.recording.graphs)
    if count is not None and count <= 0:
        return None
    if count == launches:
        unlike = np.concatenate([*launched_rows(trace)[0], np.zeros(0, dtype=np.int64)])
        alike = count
    else:
        matched = match or match_replays(run.graphs, trace, identities_of(run))
        of_none = matched.graph < 0
        unlike, alike = matched.gpu_row[of_none], len(np.unique(matched.replay[of_none]))
    if count is None and not alike:
        return None
    whole = float(durations.sum())
    known = count is None or alike == count
    share = float(durations[unlike].sum()) / whole if known and whole else None
    return UnseenGraphs(alike if count is None else count, launches, share, source)
