"""Folding of a captured graph into a readable tree, by execution order or module path.

If groups would depend on each other, a module appears once per visit (docs/decisions/0016), so
edges lead forward at every level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from graphviz_dash.analysis.attribution.attribution import NOT_ATTRIBUTED
from graphviz_dash.analysis.attribution.origins import NodeOrigin
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.folding.by_order import OrderFolder, Path, find_common_prefix
from graphviz_dash.features.graph.folding.levels import Levels
from graphviz_dash.features.graph.folding.rows import MAX_CHILDREN, GroupDraft
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind

__all__ = ["MAX_CHILDREN", "FoldCriterion", "fold_graph"]


class FoldCriterion(StrEnum):
    """Folding criterion: execution order with branches, or module path."""

    ORDER = "order"
    MODULE = "module"
    DATA = "data"
    """Like ORDER, for a graph with only its data dependencies."""


def fold_graph(
    full_graph: ExpandedGraph, criterion: FoldCriterion = FoldCriterion.ORDER
) -> FoldGroup:
    """Fold a graph into a tree; deterministic, near-linear in nodes and edges."""
    if criterion is FoldCriterion.MODULE:
        return ModuleFolder(full_graph).build_tree(full_graph.root_nodes)
    return OrderFolder(full_graph).build_graph_tree(full_graph.root_nodes)


_NO_MODULE: Final = "no module"
_BACKWARD: Final = "backward"


class NoModule(str):
    """Last path element of a node without a module: the reason."""

    __slots__ = ()


class ModuleFolder(OrderFolder):
    """Folder by module path; nodes without a module are folded by execution order."""

    def build_tree(self, nodes: Sequence[int]) -> FoldGroup:
        """Build the tree; without any module, its note explains why."""
        return self.build_graph_tree(
            nodes, "" if self._has_any_module(nodes) else self._explain_no_modules(nodes)
        )

    def build_row(self, nodes: Sequence[int]) -> list[GroupDraft]:
        """Return the modules in order, outermost first; without modules, fold by execution
        order."""
        if not self._has_any_module(nodes):
            return super().build_row(nodes)
        order = self.sort_topologically(nodes)
        row = self._build_module_row(
            Levels(len(self.rows), order, self.build_paths(order), self.source, self.target),
            0,
            len(order),
            0,
        )
        # Omit the level of a single phase.
        return list(row[0].children) if [item.kind for item in row] == [FoldKind.MODULE] else row

    def group_tangle(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Keep modules in a sequential row, regardless of their dependencies."""
        return items if self._has_modules(items) else super().group_tangle(items)

    def shorten_row(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Shorten a row; items without modules are grouped in order."""
        if not self._has_modules(items):
            return super().shorten_row(items)
        return self.shorten(self.merge_repeats(items))

    def _has_modules(self, items: Sequence[GroupDraft]) -> bool:
        grouped = (FoldKind.MODULE, FoldKind.OUTSIDE)
        return any(item.kind in grouped or len(self.get_path(item)) > 1 for item in items)

    def _has_any_module(self, nodes: Sequence[int]) -> bool:
        return any(self.rows[node].origin.module is not None for node in nodes)

    def _explain_no_modules(self, nodes: Sequence[int]) -> str:
        if not nodes:
            return ""
        reasons = Counter(self._explain_no_module(self.rows[node].origin) for node in nodes)
        reason = reasons.most_common(1)[0][0]
        return f"folded by execution order because no node has a module: {reason}"

    def _explain_no_module(self, origin: NodeOrigin) -> str:
        if origin.method == NOT_ATTRIBUTED:
            return origin.reason or "its origin is unknown"
        match origin.phase:
            case "optimizer":
                return "part of the optimizer"
            case "backward":
                return "not linked to an operator of a module's forward"
            case _:
                return "launched outside any module call"

    # -- paths -----------------------------------------------------------------------------------

    def build_paths(self, order: Sequence[int]) -> list[Path]:
        """Find the enclosing groups of each node in ``order``, outermost first.

        A forward node without a module is outside modules. Others are in the innermost module
        shared by their neighbours.
        """
        origins = [self.rows[node].origin for node in order]
        own_paths: list[Path | None] = []
        for node, origin in zip(order, origins, strict=True):
            if origin.module is not None:
                own_paths.append(self.paths[node])
            elif origin.method == NOT_ATTRIBUTED or origin.phase == _BACKWARD:
                own_paths.append(None)
            else:
                own_paths.append((origin.phase,))
        paths = []
        inherited_paths = _fill_paths(own_paths, [origin.phase for origin in origins])
        for inherited, origin in zip(inherited_paths, origins, strict=True):
            outside = () if origin.module else (NoModule(self._explain_no_module(origin)),)
            paths.append(inherited + outside)
        return paths

    # -- groups ----------------------------------------------------------------------------------

    def _build_module_row(
        self, levels: Levels, begin: int, end: int, depth: int
    ) -> list[GroupDraft]:
        """Build the items of leaves ``begin`` to ``end``, one group at the previous level."""
        items: list[GroupDraft] = []
        start = begin
        while start < end:
            group_end = levels.find_group_end(depth, start)
            items.append(self._build_item(levels, start, group_end, depth))
            start = group_end
        successors = levels.get_successors(depth, begin)
        if successors is not None:
            items = self.build_series(items, successors)
        return self.shorten_row(items)

    def _build_item(self, levels: Levels, begin: int, end: int, depth: int) -> GroupDraft:
        if end - begin == 1:
            return self.build_leaf(levels.nodes[begin])
        path, note = levels.get_path(depth, begin), levels.describe_visit(depth, begin)
        if isinstance(path[-1], NoModule):
            children = super().build_row(levels.nodes[begin:end])
            group = self.build_group(FoldKind.OUTSIDE, _NO_MODULE, children)
            group.note = "; ".join(filter(None, (path[-1], note)))
            return group
        children = self._build_module_row(levels, begin, end, depth + 1)
        single = children[0] if len(children) == 1 else None
        if single is not None and single.kind is FoldKind.MODULE and not note and depth:
            return single
        if single is not None and single.kind in (FoldKind.MODULE, FoldKind.OUTSIDE):
            # A separate group would add nothing.
            children = list(single.children)
            note = "; ".join(filter(None, (note, single.note)))
        group = self.build_group(FoldKind.MODULE, ".".join(path[1:]) or path[0], children)
        group.note = note
        return group


def _fill_paths(own_paths: list[Path | None], phases: Sequence[str]) -> list[Path]:
    """Fill unknown paths with the common prefix of the nearest known ones.

    In backward, neighbours of the same phase are preferred.
    """
    if None not in own_paths:
        return [path for path in own_paths if path is not None]
    earlier_paths = _find_nearest_paths(own_paths, phases, 1)
    later_paths = _find_nearest_paths(own_paths, phases, -1)
    paths = []
    for path, earlier, later, phase in zip(
        own_paths, earlier_paths, later_paths, phases, strict=True
    ):
        phase_path = (_BACKWARD,) if phase == _BACKWARD else ()
        inferred = (
            phase_path
            if earlier is None or later is None
            else find_common_prefix(earlier, later) or phase_path
        )
        paths.append(inferred if path is None else path)
    return paths


def _find_nearest_paths(
    paths: Sequence[Path | None], phases: Sequence[str], step: int
) -> list[Path | None]:
    """Find the nearest known path before each place (``step`` -1: after it)."""
    nearest: list[Path | None] = [None] * len(paths)
    last: Path | None = None
    last_backward: Path | None = None
    for index in range(len(paths))[::step]:
        path = paths[index]
        if path is None:
            nearest[index] = last_backward if phases[index] == _BACKWARD else last
        else:
            last = path
            if phases[index] == _BACKWARD:
                last_backward = path
    return nearest
