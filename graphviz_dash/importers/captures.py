"""Selection of the captures whose graphs a replay trace contains.

Engines capture one graph per batch size, each with its own trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from graphviz_dash.analysis.replays.inferred_graphs import find_captured_launches, infer_graphs
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.ingest.kineto.launch_arguments import read_launched_kernels
from graphviz_dash.model.run import FileRole

if TYPE_CHECKING:
    from graphviz_dash.importers.group import SourceGroup, SourcePart
    from graphviz_dash.ingest.limits import Limits
    from graphviz_dash.model.graph import CapturedGraph
    from graphviz_dash.model.trace import Trace


def select_matching_captures(group: SourceGroup, limits: Limits) -> SourceGroup:
    """Reduce ``group`` to the captures that match work of the replays, and list the files of
    others.

    Groups with fewer than two captures are unchanged. If another file describes the graphs, their
    captures are unknown, so only the best match is kept.

    Raises:
        InputError: A trace is no longer readable.
    """
    captures = group.captures
    replay = group.get_trace(FileRole.REPLAY_TRACE)
    if len(captures) < 2 or replay is None or replay.content.trace is None:
        return group
    scores = _score_captures(captures, replay.content.trace, limits)
    matching = [part for part, score in zip(captures, scores, strict=True) if score > 0]
    if matching and any(part.content.graphs for part in group.parts):
        matching = [captures[max(range(len(captures)), key=lambda index: scores[index])]]
    unused = [part for part in captures if part not in matching]
    parts = tuple(part for part in group.parts if part not in unused)
    names = tuple(sorted(part.source.name for part in unused))
    return replace(group, parts=parts, unmatched_captures=names)


def _score_captures(captures: Sequence[SourcePart], replays: Trace, limits: Limits) -> list[float]:
    """Score each capture: replay rows matched to its graphs only, weighted by confidence."""
    graphs: list[CapturedGraph] = []
    owners: dict[str, int] = {}
    for index, part in enumerate(captures):
        for graph in infer_capture_graphs(part.content.trace, replays, limits):
            name = f"graph-{len(graphs)}"
            owners[name] = index
            graphs.append(msgspec.structs.replace(graph, id=name))
    scores: Counter[int] = Counter()
    if graphs:
        match = match_replays(tuple(graphs), replays)
        for number, confidence in zip(match.graph.tolist(), match.confidence.tolist(), strict=True):
            if number >= 0:
                scores[owners[match.graphs[number]]] += confidence
    return [scores[index] for index in range(len(captures))]


def infer_capture_graphs(
    capture: Trace | None, replays: Trace, limits: Limits
) -> tuple[CapturedGraph, ...]:
    """Infer the graphs from the launches of a capture trace.

    Raises:
        InputError: A trace is no longer readable.
    """
    if capture is None:
        return ()
    rows = [row for launches, _ in find_captured_launches(capture) for row in launches.tolist()]
    return infer_graphs(capture, replays, read_launched_kernels(capture, rows, limits)).graphs
