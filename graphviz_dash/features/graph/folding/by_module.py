"""A graph folded as its model is written: by phase, then one box for each module, by its path.

Nodes of a module are brought together even where others run between them. Where that would make a
circle of two boxes, each leading to the other, the module is shown once for each time that it is
entered again (docs/decisions/0016), so that at every level, and so in every view, edges lead from
boxes to later ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from graphviz_dash.analysis.attribution.attribution import NOT_ATTRIBUTED
from graphviz_dash.analysis.attribution.origins import NodeOrigin
from graphviz_dash.features.graph.folding.by_order import OrderFolder, Path, shared
from graphviz_dash.features.graph.folding.levels import Levels
from graphviz_dash.features.graph.folding.rows import GroupDraft
from graphviz_dash.features.graph.folding.tree import FoldKind, Group

_NO_MODULE: Final = "no module"
_BACKWARD: Final = "backward"


class OutsideModule(str):
    """The last step of the path of a node without a module: the reason why it has none."""

    __slots__ = ()


class ModuleFolder(OrderFolder):
    """Folds by module path; what has no module by the order of execution."""

    def whole(self, nodes: Sequence[int]) -> Group:
        """The tree of the graph with ``nodes``; where none has a module its note says why."""
        return self.tree(nodes, "" if self._any_module(nodes) else self._why_none(nodes))

    def row_of(self, nodes: Sequence[int]) -> list[GroupDraft]:
        """The modules in order, outermost first; the order of execution where there are none."""
        if not self._any_module(nodes):
            return super().row_of(nodes)
        order = self.topological(nodes)
        row = self._row(
            Levels(len(self.rows), order, self.paths_of(order), self.source, self.target),
            0,
            len(order),
            0,
        )
        # One phase alone need not be told.
        return list(row[0].children) if [item.kind for item in row] == [FoldKind.MODULE] else row

    def tangled(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Modules stay in their row, one after another, however they depend on each other."""
        return items if self._has_modules(items) else super().tangled(items)

    def joined(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """A row short enough; what has no modules is grouped as it follows."""
        if not self._has_modules(items):
            return super().joined(items)
        return self.shorten(self.repeats(items))

    def _has_modules(self, items: Sequence[GroupDraft]) -> bool:
        grouped = (FoldKind.MODULE, FoldKind.OUTSIDE)
        return any(item.kind in grouped or len(self.path_of(item)) > 1 for item in items)

    def _any_module(self, nodes: Sequence[int]) -> bool:
        return any(self.rows[node].origin.module is not None for node in nodes)

    def _why_none(self, nodes: Sequence[int]) -> str:
        """Why no node has a module, by what holds for most."""
        if not nodes:
            return ""
        reasons = Counter(self._reason(self.rows[node].origin) for node in nodes)
        reason = reasons.most_common(1)[0][0]
        return f"no node has a module, so that the order of execution folds it: {reason}"

    def _reason(self, origin: NodeOrigin) -> str:
        """Why a node has no module."""
        if origin.method == NOT_ATTRIBUTED:
            return origin.reason or "its origin is unknown"
        match origin.phase:
            case "optimizer":
                return "the optimizer's own work"
            case "backward":
                return "no operator of a module's forward leads to it"
            case _:
                return "launched outside every module's call"

    # -- paths -----------------------------------------------------------------------------------

    def paths_of(self, order: Sequence[int]) -> list[Path]:
        """For each of ``order`` the groups that it lies in, outermost first.

        A node without a module lies in a group for these and the reason. In forward it ran outside
        the calls of the modules around it, and stands outside of them. In backward, and where
        nothing is known of a node, no call tells: it stands in the innermost module that its
        neighbours have in common.
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
        inherited_paths = _between(own_paths, [origin.phase for origin in origins])
        for inherited, origin in zip(inherited_paths, origins, strict=True):
            outside = () if origin.module else (OutsideModule(self._reason(origin)),)
            paths.append(inherited + outside)
        return paths

    # -- groups ----------------------------------------------------------------------------------

    def _row(self, levels: Levels, begin: int, end: int, depth: int) -> list[GroupDraft]:
        """The items of leaves ``begin`` to ``end``, which are one group at the level before."""
        items: list[GroupDraft] = []
        leaf = begin
        while leaf < end:
            until = levels.until(depth, leaf)
            items.append(self._item(levels, leaf, until, depth))
            leaf = until
        after = levels.after(depth, begin)
        if after is not None:
            items = self.series(items, after)
        return self.joined(items)

    def _item(self, levels: Levels, begin: int, end: int, depth: int) -> GroupDraft:
        if end - begin == 1:
            return self.leaf(levels.nodes[begin])
        path, note = levels.path(depth, begin), levels.note(depth, begin)
        if isinstance(path[-1], OutsideModule):
            inside = super().row_of(levels.nodes[begin:end])
            group = self.group(FoldKind.OUTSIDE, _NO_MODULE, inside)
            group.note = "; ".join(filter(None, (path[-1], note)))
            return group
        inside = self._row(levels, begin, end, depth + 1)
        only = inside[0] if len(inside) == 1 else None
        if only is not None and only.kind is FoldKind.MODULE and not note and depth:
            return only
        if only is not None and only.kind in (FoldKind.MODULE, FoldKind.OUTSIDE):
            # A group of its own would say nothing new.
            inside = list(only.children)
            note = "; ".join(filter(None, (note, only.note)))
        group = self.group(FoldKind.MODULE, ".".join(path[1:]) or path[0], inside)
        group.note = note
        return group


def _between(own_paths: list[Path | None], phases: Sequence[str]) -> list[Path]:
    """``known`` with the paths that are not known taken from the neighbours: what the nearest ones
    before and after have in common, those of the same phase where there is one in backward."""
    if None not in own_paths:
        return [path for path in own_paths if path is not None]
    before = _nearest(own_paths, phases, 1)
    after = _nearest(own_paths, phases, -1)
    paths = []
    for path, earlier, later, phase in zip(own_paths, before, after, phases, strict=True):
        own = (_BACKWARD,) if phase == _BACKWARD else ()
        inferred = own if earlier is None or later is None else shared(earlier, later) or own
        paths.append(inferred if path is None else path)
    return paths


def _nearest(
    own_paths: Sequence[Path | None], phases: Sequence[str], step: int
) -> list[Path | None]:
    """For each place the known path nearest before it (after it for a ``step`` of -1)."""
    nearest: list[Path | None] = [None] * len(own_paths)
    last: Path | None = None
    last_backward: Path | None = None
    for index in range(len(own_paths))[::step]:
        path = own_paths[index]
        if path is None:
            nearest[index] = last_backward if phases[index] == _BACKWARD else last
        else:
            last = path
            if phases[index] == _BACKWARD:
                last_backward = path
    return nearest
