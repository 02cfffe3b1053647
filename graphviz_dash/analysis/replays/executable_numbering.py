"""Numbering of the nodes in an executable graph, including child graphs and bodies.

The upper half of a record's node id is the id of the executable graph. The lower half is a
number across all contained nodes. Observed with CUDA 13.0 (driver 580): a graph's own nodes keep
the numbers of the captured graph. The nodes of contained graphs follow graph by graph, in the
order of their containing nodes, and then the nodes contained in those, highest-numbered first.
Callers verify the result against the appearance of the records.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphviz_dash.model.graph import CapturedGraph

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
