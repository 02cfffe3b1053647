"""Comparison of graph nodes with the corresponding work of the eager step.

A node has the same kernel (faster or slower), another kernel, or no eager counterpart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.analysis.step_comparison.work_pairs import PairKind, PairRow, WorkPairs

_MIN_RELATIVE_CHANGE: Final = 0.1
"""Relative change of a kernel's time that counts as a difference.

Durations of the same kernel already differ by a few percent between steps.
"""


class EagerChange(StrEnum):
    """Change from eager work to a node, in legend order."""

    FASTER = "10% faster than eager, or more"
    SIMILAR = "within 10% of eager"
    SLOWER = "10% slower than eager, or more"
    OTHER = "another kernel than eager"
    ADDED = "not in the eager step"
    UNKNOWN = "not compared"


class EagerCounterpart(Struct, frozen=True):
    """A node and its eager partners, with times of traced passes."""

    change: EagerChange
    eager_ns: int | None
    """Total time of the partners; None for work that eager code does not do."""
    graph_ns: int
    """Total time of all nodes with the same partners."""
    names: tuple[str, ...]
    """Distinct names of the partners."""
    node_count: int


def find_eager_changes(
    pairs: WorkPairs, full_graph: ExpandedGraph
) -> Mapping[int, EagerCounterpart]:
    """Return the counterparts of the nodes of ``full_graph`` by index.

    ``pairs`` compares the eager step with a step that launches the graph.
    """
    node_index = {name: index for index, name in enumerate(full_graph.owners)}
    rows: defaultdict[int, list[PairRow]] = defaultdict(list)
    for row in pairs.rows:
        for item_index in row.after:
            item = pairs.after.items[item_index]
            if item.graph is None or item.node is None:
                continue
            if (index := node_index.get((item.graph, item.node))) is not None:
                rows[index].append(row)
    # Only the first launch of a graph within the step is used.
    return {index: _build_counterpart(pairs, node_rows[0]) for index, node_rows in rows.items()}


def _build_counterpart(pairs: WorkPairs, row: PairRow) -> EagerCounterpart:
    after = sum(int(pairs.after.duration[item_index]) for item_index in row.after)
    if not row.before:
        return EagerCounterpart(EagerChange.ADDED, None, after, (), len(row.after))
    before = sum(int(pairs.before.duration[item_index]) for item_index in row.before)
    names = tuple(dict.fromkeys(pairs.before.items[item_index].name for item_index in row.before))
    if row.kind is not PairKind.SAME:
        change = EagerChange.OTHER
    elif after < before * (1 - _MIN_RELATIVE_CHANGE):
        change = EagerChange.FASTER
    elif after > before * (1 + _MIN_RELATIVE_CHANGE):
        change = EagerChange.SLOWER
    else:
        change = EagerChange.SIMILAR
    return EagerCounterpart(change, before, after, names, len(row.after))
