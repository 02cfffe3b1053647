"""Graph launches with fewer pieces of work in the trace than other launches of the same graph."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from graphviz_dash.analysis.arrays import Ints, encode, get_column
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class

if TYPE_CHECKING:
    from graphviz_dash.analysis.trace.lanes import Links
    from graphviz_dash.analysis.trace.steps import Step
    from graphviz_dash.model.trace import Trace

_Launch: TypeAlias = tuple[int, bytes]
"""Row of a launch, and the sorted name codes of its work."""
_MIN_LAUNCHES: Final = 3
"""Minimum number of launches of a graph, most of which run the same work."""
_MIN_SHARE: Final = 0.5
"""Minimum share of the work of a complete replay; with less, it may be another graph."""


def find_partial_replays(trace: Trace, links: Links, steps: Sequence[Step]) -> Ints:
    """Find the runtime rows of launches that lack work of most other launches of their graph.

    Launches are of the same graph if they have its id, or else the same place among the launches
    of their steps. A server may replay another graph there, so in the second case the work must
    be unique. Bodies of conditional nodes are not linked to launches and do not matter.
    """
    codes, names = encode(trace.runtime["name"])
    is_graph = [get_call_class(name) is CallClass.GRAPH_LAUNCH for name in names]
    if not any(is_graph):
        return np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(np.array(is_graph, dtype=np.bool_)[codes])
    name_codes = trace.gpu["name"].to_physical().to_numpy().astype(np.int64)
    graph_ids = get_column(trace.gpu, "graph_id")
    by_id: defaultdict[int, list[_Launch]] = defaultdict(list)
    by_row: dict[int, bytes] = {}
    for row in rows.tolist():
        work = links.get_launched_rows(row)
        by_row[row] = np.sort(name_codes[work]).tobytes()
        if len(work) and (ident := int(graph_ids[work].max())) >= 0:
            by_id[ident].append((row, by_row[row]))
    if by_id:
        partial = {row for launches in by_id.values() for row in _find_incomplete(launches)}
    else:
        frequency = Counter(by_row.values())
        starts = get_column(trace.runtime, "ts")[rows]
        partial = {
            row
            for launches in _group_by_place(rows, starts, by_row, steps)
            for row in _find_incomplete(launches)
            if frequency[by_row[row]] == 1
        }
    return np.array(sorted(partial), dtype=np.int64)


def _group_by_place(
    rows: Ints, starts: Ints, by_row: dict[int, bytes], steps: Sequence[Step]
) -> Iterator[list[_Launch]]:
    """Group the launches of steps with the same number of launches by their place in the step."""
    groups: defaultdict[tuple[int, int], list[_Launch]] = defaultdict(list)
    for step in steps:
        first, last = np.searchsorted(starts, [step.start, step.end]).tolist()
        for position, row in enumerate(rows[first:last].tolist()):
            groups[last - first, position].append((row, by_row[row]))
    yield from groups.values()


def _find_incomplete(launches: list[_Launch]) -> list[int]:
    """Return the rows of launches whose work is a part of the work of most of ``launches``."""
    typical, count = Counter(work for _, work in launches).most_common(1)[0]
    if len(launches) < _MIN_LAUNCHES or 2 * count <= len(launches):
        return []
    complete = np.frombuffer(typical, np.int64)
    return [row for row, work in launches if _is_part(np.frombuffer(work, np.int64), complete)]


def _is_part(work: Ints, complete: Ints) -> bool:
    if not _MIN_SHARE * len(complete) <= len(work) < len(complete):
        return False
    return Counter(work.tolist()) <= Counter(complete.tolist())
