"""Which of several captures a trace of replays shows replays of: engines capture a graph for each
batch size, each with a trace of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphviz_dash.analysis.replays.inferred_graphs import captured_launches, infer_graphs
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.ingest.kineto.launch_arguments import launched_kernels
from graphviz_dash.model.run import FileRole

if TYPE_CHECKING:
    from graphviz_dash.importers.group import SourceGroup, SourcePart
    from graphviz_dash.ingest.limits import Limits
    from graphviz_dash.model.trace import Trace


def with_fitting_capture(group: SourceGroup, limits: Limits) -> SourceGroup:
    """``group`` with the one of its captures that most of the replays' work is matched with, and
    the names of the files of the others; as it is where it has no several captures.

    Raises:
        InputError: a trace that cannot be read any more.
    """
    captures = [part for part in group.parts if part.role is FileRole.CAPTURE_TRACE]
    replay = group.trace(FileRole.REPLAY_TRACE)
    if len(captures) < 2 or replay is None or replay.content.trace is None:
        return group
    scores = [_matched(part, replay.content.trace, limits) for part in captures]
    best = max(range(len(captures)), key=lambda index: scores[index])
    unused = [part for index, part in enumerate(captures) if index != best or not scores[index]]
    parts = tuple(part for part in group.parts if part not in unused)
    names = tuple(sorted(part.source.name for part in unused))
    return replace(group, parts=parts, other_captures=names)


def _matched(part: SourcePart, replays: Trace, limits: Limits) -> float:
    """Rows of the replays that are nodes of the capture's graphs, each as far as it is sure."""
    capture = part.content.trace
    if capture is None:
        return 0.0
    rows = [row for launches, _ in captured_launches(capture) for row in launches.tolist()]
    graphs = infer_graphs(capture, replays, launched_kernels(capture, rows, limits)).graphs
    return float(match_replays(graphs, replays).confidence.sum()) if graphs else 0.0
