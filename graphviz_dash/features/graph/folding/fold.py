"""A captured graph folded into a tree that can be read, in one of two ways."""

from __future__ import annotations

from enum import StrEnum

from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.features.graph.folding.by_module import ModuleFolder
from graphviz_dash.features.graph.folding.by_order import OrderFolder
from graphviz_dash.features.graph.folding.rows import MOST_CHILDREN
from graphviz_dash.features.graph.folding.tree import Group

__all__ = ["MOST_CHILDREN", "FoldBy", "fold"]


class FoldBy(StrEnum):
    """What comes first: the order of execution, with its branches, or the path of modules."""

    ORDER = "order"
    MODULE = "module"
    DATA = "data"
    """As ORDER, of a graph whose edges are those that its data needs."""


def fold(whole: WholeGraph, by: FoldBy = FoldBy.ORDER) -> Group:
    """The tree of a graph's nodes; deterministic, near-linear in nodes and edges."""
    if by is FoldBy.MODULE:
        return ModuleFolder(whole).whole(whole.top)
    return OrderFolder(whole).tree(whole.top)
