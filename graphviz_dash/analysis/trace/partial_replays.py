"""Graph launches with fewer pieces of work in the trace than other launches of the same graph."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from graphviz_dash.analysis.arrays import Ints, encode, get_column
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class

if TYPE_CHECKING:
    from graphviz_dash.analysis.trace.lanes import Links
    from graphviz_dash.model.trace import Trace

_Replay: TypeAlias = tuple[int, bytes]
"""Id of the graph, and the sorted name codes of its work."""
_MAX_GRAPHS: Final = 64
"""Number of the most frequent replays that others are compared with."""
_MIN_SHARE: Final = 0.5
"""Minimum share of the work of a complete replay; with less, it may be another graph."""


def find_partial_replays(trace: Trace, links: Links) -> Ints:
    """Find the runtime rows of launches that lack work of a more frequent replay.

    Bodies of conditional nodes are not linked to launches, so they do not matter.
    """
    codes, names = encode(trace.runtime["name"])
    is_graph = [get_call_class(name) is CallClass.GRAPH_LAUNCH for name in names]
    if not any(is_graph):
        return np.zeros(0, dtype=np.int64)
    launches = np.flatnonzero(np.array(is_graph, dtype=np.bool_)[codes])
    name_codes = trace.gpu["name"].to_physical().to_numpy().astype(np.int64)
    graph_ids = get_column(trace.gpu, "graph_id")
    replays: list[_Replay] = []
    for launch in launches.tolist():
        rows = links.get_launched_rows(launch)
        ident = int(graph_ids[rows].max()) if len(rows) else -1
        replays.append((ident, np.sort(name_codes[rows]).tobytes()))
    frequency = Counter(replays)
    references = [
        (replay, count) for replay, count in frequency.most_common(_MAX_GRAPHS) if count > 1
    ]
    partial = {
        replay
        for replay, count in frequency.items()
        if any(_check_missing_work(replay, other) for other, others in references if others > count)
    }
    return np.array(
        [row for row, replay in zip(launches.tolist(), replays, strict=True) if replay in partial],
        dtype=np.int64,
    )


def _check_missing_work(replay: _Replay, other: _Replay) -> bool:
    work, other_work = (np.frombuffer(names, np.int64) for _, names in (replay, other))
    return (
        replay[0] == other[0]
        and 0 < _MIN_SHARE * len(other_work) <= len(work) < len(other_work)
        and Counter(work.tolist()) <= Counter(other_work.tolist())
    )
