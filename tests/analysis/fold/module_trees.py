"""Small graphs whose nodes have a phase and a module."""

from __future__ import annotations

from graphviz_dash.analysis.attribution.attribution import NOT_ATTRIBUTED, Attribution, NodeOrigin
from graphviz_dash.analysis.nodes.node_table import build_node_table
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.folding.fold import FoldCriterion, fold_graph
from graphviz_dash.features.graph.folding.tree import FoldGroup
from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, KernelParams, NodeKind

LOST = "no matching launch found in the capture"


def graph(edges: list[tuple[int, int]], *told: str) -> ExpandedGraph:
    """A graph with a node for each of ``told``: "phase:module", "phase:" without a module, or ""
    where nothing is known of the node."""
    kernels = (KernelParams("k", f"k{at % 3}", (1, 1, 1), (1, 1, 1), 0) for at in range(len(told)))
    nodes = tuple(GraphNode(at, NodeKind.KERNEL, kernel) for at, kernel in enumerate(kernels))
    made = CapturedGraph("g", nodes, tuple(GraphEdge(a, b) for a, b in edges), "test")
    origins = []
    for one in told:
        phase, _, module = one.partition(":")
        origins.append(
            NodeOrigin("capture order", 1.0, op="aten::op", phase=phase, module=module or None)
            if phase
            else NodeOrigin(NOT_ATTRIBUTED, 0.0, reason=LOST)
        )
    attribution = Attribution("g", tuple(origins), len(told), 0, 0)
    return ExpandedGraph.from_table(build_node_table(made, attribution, None))


def tree(edges: list[tuple[int, int]], *told: str) -> FoldGroup:
    return fold_graph(graph(edges, *told), FoldCriterion.MODULE)


def said(root: FoldGroup) -> list[tuple[str, str, int]]:
    """Title, note and nodes of each group except the root, in tree order."""
    found = []
    for child in root.children:
        if isinstance(child, FoldGroup):
            found += [(child.title, child.note, child.count), *said(child)]
    return found
