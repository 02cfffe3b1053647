"""What each node of a graph is to the work that the eager step does in its place: the same kernel,
faster or slower, another one, or nothing that eager code runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.analysis.step_comparison.work_pairs import PairKind, PairRow, WorkPairs

_NOTABLE: Final = 0.1
"""Change of a kernel's time, as a part of the eager one, below which it counts as none: durations
of one kernel differ by a few percent between steps already."""


class EagerChange(StrEnum):
    """What became of eager work in a node; the order is the order of legends."""

    FASTER = "10% faster than eager, or more"
    ALIKE = "within 10% of eager"
    SLOWER = "10% slower than eager, or more"
    OTHER = "another kernel than eager"
    ADDED = "not in the eager step"
    UNKNOWN = "not compared"


class EagerCounterpart(Struct, frozen=True):
    """A node beside its partners in the eager step; times are of traced passes."""

    change: EagerChange
    """What became of the eager work in the node."""
    eager_ns: int | None
    """How long the partners run, in ns; None for work that eager code does not do."""
    graph_ns: int
    """How long the node runs, with the others of the graph that have the same partners, in ns."""
    names: tuple[str, ...]
    """The names of the partners, each once."""
    together: int
    """How many nodes have these partners."""


def eager_changes(pairs: WorkPairs, whole: WholeGraph) -> Mapping[int, EagerCounterpart]:
    """The nodes of ``whole`` that ``pairs`` speaks of, by their place; ``pairs`` is of the eager
    step and of a step that launches the graph."""
    node_index = {name: index for index, name in enumerate(whole.owner)}
    rows: defaultdict[int, list[PairRow]] = defaultdict(list)
    for row in pairs.rows:
        for item_index in row.after:
            item = pairs.after.items[item_index]
            if item.graph is None or item.node is None:
                continue
            if (index := node_index.get((item.graph, item.node))) is not None:
                rows[index].append(row)
    # A graph that a step launches several times has a row for each launch: the first stands for it.
    return {index: _read(pairs, node_rows[0]) for index, node_rows in rows.items()}


def _read(pairs: WorkPairs, row: PairRow) -> EagerCounterpart:
    after = sum(int(pairs.after.duration[item_index]) for item_index in row.after)
    if not row.before:
        return EagerCounterpart(EagerChange.ADDED, None, after, (), len(row.after))
    before = sum(int(pairs.before.duration[item_index]) for item_index in row.before)
    names = tuple(dict.fromkeys(pairs.before.items[item_index].name for item_index in row.before))
    if row.kind is not PairKind.SAME:
        change = EagerChange.OTHER
    elif after < before * (1 - _NOTABLE):
        change = EagerChange.FASTER
    elif after > before * (1 + _NOTABLE):
        change = EagerChange.SLOWER
    else:
        change = EagerChange.ALIKE
    return EagerCounterpart(change, before, after, names, len(row.after))
