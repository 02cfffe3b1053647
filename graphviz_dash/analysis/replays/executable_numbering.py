"""How the driver numbers the nodes of an executable graph, its child graphs and bodies included.

A record's node id has the id of the executable graph in its upper half and in its lower half a
number that runs through all the graph holds. Seen with CUDA 13.0 (driver 580): a graph's own nodes
keep the numbers that they have in the captured graph; after them come, graph by graph, the nodes of
those it holds, in the order of the nodes that hold them, and then what those hold, the one numbered
last first. Callers check what this says against what a record looks like.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphviz_dash.model.graph import CapturedGraph

NodeKey = tuple[str, int]


def executable_numbers(
    root: CapturedGraph, by_id: Mapping[str, CapturedGraph], own: tuple[int, ...] | None = None
) -> dict[int, NodeKey]:
    """Number in the executable graph -> (graph id, node index), for all that ``root`` holds.

    ``own``: the numbers of the root's own nodes, in creation order, where they are known; without
    them the place in creation order is the number, which holds unless nodes were removed.
    """
    numbers = own if own is not None else tuple(range(len(root.nodes)))
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
