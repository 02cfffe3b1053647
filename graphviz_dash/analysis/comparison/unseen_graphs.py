"""Traced launches of graphs that the run lacks: of a library, or missing from an import."""

from __future__ import annotations

import numpy as np

from graphviz_dash.analysis.arrays import Ints, get_column
from graphviz_dash.analysis.metrics.caveats import Caveat, CaveatCode, make_caveat
from graphviz_dash.analysis.metrics.low_confidence import GraphSource
from graphviz_dash.analysis.replays.replays import (
    ReplayMatch,
    find_launch_correlations,
    get_identities,
    group_launched_rows,
    match_replays,
)
from graphviz_dash.model.run import Run
from graphviz_dash.model.trace import WHOLE_GRAPH_PATTERN, Trace


def find_unseen_graphs(run: Run, match: ReplayMatch | None) -> Caveat | None:
    """Count the traced launches of graphs that are not in ``run``; None if there are none.

    In recorded programs, the recorder counted its own launches.
    """
    trace = run.replay_trace
    launches = 0 if trace is None else len(find_launch_correlations(trace)[0])
    if trace is None or not launches:
        return None
    durations = np.maximum(get_column(trace.gpu, "dur"), 0)
    if run.recording is None:
        source = GraphSource.IMPORT if run.manifest.sources else GraphSource.CAPTURE
        count = launches if not run.graphs else None
        if count and source is GraphSource.CAPTURE and run.mode.captures_graphs:
            # The bundle lacks graphs of the run itself, which is reported elsewhere.
            return None
    else:
        source = GraphSource.RECORDER
        count = launches - sum(graph.window_replays for graph in run.recording.graphs)
    if count is not None and count <= 0:
        return None
    if count == launches:
        unmatched_rows = np.concatenate(
            [*group_launched_rows(trace)[0], np.zeros(0, dtype=np.int64)]
        )
        unmatched_count = count
    else:
        replay_match = match or match_replays(run.graphs, trace, get_identities(run))
        is_unmatched = replay_match.graph < 0
        unmatched_rows, unmatched_count = (
            replay_match.gpu_row[is_unmatched],
            len(np.unique(replay_match.replay[is_unmatched])),
        )
    if count is None and not unmatched_count:
        return None
    if source is GraphSource.IMPORT and _are_whole_graphs(trace, unmatched_rows):
        source = GraphSource.WHOLE
    total_ns = float(durations.sum())
    is_complete = count is None or unmatched_count == count
    share = float(durations[unmatched_rows].sum()) / total_ns if is_complete and total_ns else None
    return make_caveat(
        CaveatCode.UNKNOWN_GRAPHS,
        count=unmatched_count if count is None else count,
        launches=launches,
        time_share=share,
        source=source,
    )


def _are_whole_graphs(trace: Trace, rows: Ints) -> bool:
    names = trace.gpu["name"].gather(rows).cast(str)
    return bool(len(rows)) and bool(names.str.contains(WHOLE_GRAPH_PATTERN).all())
