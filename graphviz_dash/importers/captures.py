"""Which of several captures a trace of replays shows replays of: engines capture a graph for each
batch size, each with a trace of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from graphviz_dash.analysis.replays.inferred_graphs import captured_launches, infer_graphs
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.ingest.kineto.launch_arguments import launched_kernels
from graphviz_dash.model.run import FileRole

if TYPE_CHECKING:
    from graphviz_dash.importers.group import SourceGroup, SourcePart
    from graphviz_dash.ingest.limits import Limits
    from graphviz_dash.model.graph import CapturedGraph
    from graphviz_dash.model.trace import Trace


def with_fitting_captures(group: SourceGroup, limits: Limits) -> SourceGroup:
    """``group`` with those of its captures that work of the replays is matched with, and the names
    of the files of the others; as it is where it has no several captures. Where another file
    describes the graphs nothing tells which of them a capture made: then it keeps one, with which
    most is matched.

    Raises:
        InputError: a trace that cannot be read any more.
    """
    captures = group.captures
    replay = group.trace(FileRole.REPLAY_TRACE)
    if len(captures) < 2 or replay is None or replay.content.trace is None:
        return group
    scores = _matched(captures, replay.content.trace, limits)
    kept = [part for part, score in zip(captures, scores, strict=True) if score > 0]
    if kept and any(part.content.graphs for part in group.parts):
        kept = [captures[max(range(len(captures)), key=lambda index: scores[index])]]
    unused = [part for part in captures if part not in kept]
    parts = tuple(part for part in group.parts if part not in unused)
    names = tuple(sorted(part.source.name for part in unused))
    return replace(group, parts=parts, other_captures=names)


def _matched(captures: Sequence[SourcePart], replays: Trace, limits: Limits) -> list[float]:
    """For each of the captures the rows of the replays that are nodes of its graphs and of no
    other's, each as far as it is sure."""
    graphs: list[CapturedGraph] = []
    owners: dict[str, int] = {}
    for index, part in enumerate(captures):
        for graph in graphs_of_capture(part.content.trace, replays, limits):
            name = f"graph-{len(graphs)}"
            owners[name] = index
            graphs.append(msgspec.structs.replace(graph, id=name))
    scores: Counter[int] = Counter()
    if graphs:
        match = match_replays(tuple(graphs), replays)
        for number, sure in zip(match.graph.tolist(), match.confidence.tolist(), strict=True):
            if number >= 0:
                scores[owners[match.graphs[number]]] += sure
    return [scores[index] for index in range(len(captures))]


def graphs_of_capture(
    capture: Trace | None, replays: Trace, limits: Limits
) -> tuple[CapturedGraph, ...]:
    """The graphs that the launches of a capture's trace tell.

    Raises:
        InputError: a trace that cannot be read any more.
    """
    if capture is None:
        return ()
    rows = [row for launches, _ in captured_launches(capture) for row in launches.tolist()]
    return infer_graphs(capture, replays, launched_kernels(capture, rows, limits)).graphs
