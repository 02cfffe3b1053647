"""Folding of a captured graph into a readable tree, by execution order or module path."""

from __future__ import annotations

from enum import StrEnum

from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.features.graph.folding.by_module import ModuleFolder
from graphviz_dash.features.graph.folding.by_order import OrderFolder
from graphviz_dash.features.graph.folding.rows import MOST_CHILDREN
from graphviz_dash.features.graph.folding.tree import Group

__all__ = ["MOST_CHILDREN", "FoldBy", "fold"]


class FoldBy(StrEnum):
    """Folding criterion: execution order with branches, or module path."""

    ORDER = "order"
    MODULE = "module"
    DATA = "data"
    """Like ORDER, for a graph with only its data dependencies."""


def fold(whole: WholeGraph, by: FoldBy = FoldBy.ORDER) -> Group:
    """Fold a graph into a tree; deterministic, near-linear in nodes and edges."""
    if by is FoldBy.MODULE:
        return ModuleFolder(whole).whole(whole.top)
    return OrderFolder(whole).tree(whole.top)
