"""Matching of rows to nodes by recorded id, verified by appearance.

The upper half of a record's node id is the id of the executable graph. The lower half is a
number across all contained nodes. Observed with CUDA 13.0 (driver 580): a graph's own nodes keep
the numbers of the captured graph. The nodes of contained graphs follow graph by graph, in the
order of their containing nodes, and then the nodes contained in those, highest-numbered first.
Callers verify the result against the appearance of the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.trace.signatures import DRIVER_CODES, NO_NODE
from graphviz_dash.model.graph import CapturedGraph, MemcpyParams, MemsetParams, NodeKind

_MIN_AGREEMENT: Final = 0.99
"""Minimum fraction of rows that must look like the node named by their id."""


class IdMatcher:
    """Matcher for the replays of one root graph.

    ``code_of`` holds the signature of each node, including contained graphs.
    """

    def __init__(
        self,
        root: CapturedGraph,
        by_id: Mapping[str, CapturedGraph],
        root_numbers: tuple[int, ...] | None,
        code_of: Mapping[NodeKey, int],
        graphs: Sequence[str],
    ) -> None:
        numbers = number_executable_nodes(root, by_id, root_numbers)
        size = max(numbers, default=-1) + 1
        graph_index = {name: index for index, name in enumerate(graphs)}
        self._graph, self._index = (np.full(size, -1, dtype=np.int64) for _ in range(2))
        self._code, self._driver = (np.full(size, NO_NODE, dtype=np.int64) for _ in range(2))
        self._repeats = np.zeros(size, dtype=bool)
        for number, (name, index) in numbers.items():
            node = by_id[name].nodes[index]
            self._graph[number], self._index[number] = graph_index[name], index
            self._code[number] = code_of.get((name, index), NO_NODE)
            if isinstance(node.params, MemcpyParams | MemsetParams):
                self._driver[number] = DRIVER_CODES[node.kind]
            self._repeats[number] = _is_in_conditional(by_id[name], by_id)

    def match(self, codes: Ints, ident: Ints, exec_id: int) -> tuple[Ints, Ints] | None:
        """Return graph (index in ``graphs``) and node of each row of one replay, -1 if none.

        None if the rows have no ids or do not look like the named nodes. Zero is a valid node id
        but also appears on eager kernels, so it counts only with an executable graph id (not
        -1). A node that appears twice in a replay is rejected, except in the body of a
        conditional node.
        """
        if not np.any(ident > 0) and exec_id <= 0:
            return None
        number = ident & 0xFFFF_FFFF
        inside = (ident >= 0) & (number < len(self._code))
        slot = np.where(inside, number, 0)
        looks = (self._code[slot] == codes) | (self._driver[slot] == codes)
        agree = inside & looks & (codes != NO_NODE)
        if np.count_nonzero(agree) < _MIN_AGREEMENT * len(codes):
            return None
        is_repeated = np.ones(len(slot), dtype=bool)
        is_repeated[np.unique(np.where(agree, slot, -1), return_index=True)[1]] = False
        is_reliable = agree & (~is_repeated | self._repeats[slot])
        return np.where(is_reliable, self._graph[slot], -1), np.where(
            is_reliable, self._index[slot], -1
        )


def _is_in_conditional(graph: CapturedGraph, by_id: Mapping[str, CapturedGraph]) -> bool:
    """Return whether ``graph`` is in a body of a conditional node, which can run repeatedly."""
    while graph.parent is not None and graph.parent[0] in by_id:
        holder = by_id[graph.parent[0]]
        if holder.nodes[graph.parent[1]].kind is NodeKind.CONDITIONAL:
            return True
        graph = holder
    return False


NodeKey = tuple[str, int]


def number_executable_nodes(
    root: CapturedGraph,
    by_id: Mapping[str, CapturedGraph],
    root_numbers: tuple[int, ...] | None = None,
) -> dict[int, NodeKey]:
    """Map numbers in the executable graph to (graph id, node index), for everything in ``root``.

    ``root_numbers`` holds the numbers of the root's own nodes in creation order, if known. Without
    them, the position in creation order is used, which is correct unless nodes were removed.
    """
    numbers = root_numbers if root_numbers is not None else tuple(range(len(root.nodes)))
    nodes_by_number: dict[int, NodeKey] = {
        number: (root.id, node.index) for number, node in zip(numbers, root.nodes, strict=True)
    }
    following = max(numbers, default=-1) + 1
    pending = [root]
    while pending:
        for node in pending.pop().nodes:
            for name in node.bodies:
                body = by_id.get(name)
                if body is None:
                    continue
                for inner in body.nodes:
                    nodes_by_number[following + inner.index] = (name, inner.index)
                following += len(body.nodes)
                pending.append(body)
    return nodes_by_number
