"""Folding of a captured graph into a readable tree, by execution order or module path."""

from __future__ import annotations

from enum import StrEnum

from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.folding.by_module import ModuleFolder
from graphviz_dash.features.graph.folding.by_order import OrderFolder
from graphviz_dash.features.graph.folding.rows import MAX_CHILDREN
from graphviz_dash.features.graph.folding.tree import FoldGroup

__all__ = ["MAX_CHILDREN", "FoldCriterion", "fold_graph"]


class FoldCriterion(StrEnum):
    """Folding criterion: execution order with branches, or module path."""

    ORDER = "order"
    MODULE = "module"
    DATA = "data"
    """Like ORDER, for a graph with only its data dependencies."""


def fold_graph(whole: ExpandedGraph, criterion: FoldCriterion = FoldCriterion.ORDER) -> FoldGroup:
    """Fold a graph into a tree; deterministic, near-linear in nodes and edges."""
    if criterion is FoldCriterion.MODULE:
        return ModuleFolder(whole).build_tree(whole.root_nodes)
    return OrderFolder(whole).build_graph_tree(whole.root_nodes)
