"""Small graphs with given modules and names, and their trees."""

from __future__ import annotations

import random

from graphviz_dash.analysis.attribution.attribution import Attribution, NodeOrigin
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_node_table
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.folding.fold import fold_graph
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind, Leaf, index_groups
from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, KernelParams, NodeKind


def table(
    count: int,
    edges: list[tuple[int, int]],
    modules: list[str | None] | None = None,
    names: list[str] | None = None,
) -> NodeTable:
    """A graph of kernels, called by their module and name."""
    nodes = tuple(
        GraphNode(
            index,
            NodeKind.KERNEL,
            KernelParams("k", names[index] if names else f"k{index % 3}", (1, 1, 1), (1, 1, 1), 0),
        )
        for index in range(count)
    )
    graph = CapturedGraph("g", nodes, tuple(GraphEdge(a, b) for a, b in edges), "test")
    origins = tuple(
        NodeOrigin("capture order", 1.0, op="aten::op", phase="forward", module=module)
        for module in (modules or [None] * count)
    )
    return build_node_table(graph, Attribution("g", origins, count, 0, 0), None)


def tree(made: NodeTable) -> FoldGroup:
    return fold_graph(ExpandedGraph.from_table(made))


def near_edges(count: int, chance: random.Random, density: float) -> list[tuple[int, int]]:
    """Random dependencies on the dozen nodes before, most often on the last."""
    return [
        (a, b)
        for a in range(count)
        for b in range(a + 1, min(count, a + 12))
        if chance.random() < density + (0.8 if b == a + 1 else 0)
    ]


def line(count: int) -> list[tuple[int, int]]:
    return [(index, index + 1) for index in range(count - 1)]


def leaves(group: FoldGroup) -> list[int]:
    found = []
    for child in group.children:
        found += [child.node] if isinstance(child, Leaf) else leaves(child)
    return found


def of_kind(root: FoldGroup, kind: FoldKind) -> list[FoldGroup]:
    return [group for group in index_groups(root).values() if group.kind is kind]


LAYER = ("ln", "qkv", "attention", "project", "add", "ln2", "up", "gelu", "down", "add2")


def layers(count: int, seed: int) -> list[str]:
    """Kernels of layers, every eighth of which has some more in its middle."""
    chance = random.Random(seed)
    names: list[str] = []
    for number in range(count):
        more = [f"extra{chance.randrange(30)}" for _ in range(chance.randint(1, 3))]
        names += [*LAYER[:5], *(more if number % 8 == 7 else []), *LAYER[5:]]
    return names
