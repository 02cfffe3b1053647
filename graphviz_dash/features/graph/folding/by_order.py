"""A graph folded in the order of execution: parallel branches, then modules as they follow.

The order of execution gives a spine: nodes that no edge passes by. Between two of them lie regions
of parallel branches. Along the spine neighbours of one phase and module form groups, as the model
is written; groups in a row that are equal or alike become one repeat; what is left and long becomes
runs. A node that holds graphs becomes a group of itself and of its bodies.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.features.graph.folding.rows import FoldRows, GroupDraft, neighbours
from graphviz_dash.features.graph.folding.tree import FoldKind

Path: TypeAlias = tuple[str, ...]
"""Phase and module path of a node: ("forward", "Transformer", "layers.0", "attention")."""

_Stretch: TypeAlias = tuple[Path, list[GroupDraft]]
"""Neighbours in a row that have the same phase and module path, and that path."""


class OrderFolder(FoldRows):
    """Folds by the order of execution."""

    def __init__(self, whole: WholeGraph) -> None:
        super().__init__(whole)
        edges = whole.table.graph.edges
        self.source = np.fromiter((edge.source for edge in edges), np.int64, len(edges))
        self.target = np.fromiter((edge.target for edge in edges), np.int64, len(edges))
        self._after = _after(len(self.rows), self.source, self.target)
        self._ascending = bool((self.source < self.target).all())
        self.paths = _module_paths(self.rows)

    def row_of(self, nodes: Sequence[int]) -> list[GroupDraft]:
        """The items along the spine, modules grouped."""
        order = self.topological(nodes)
        position = {node: index for index, node in enumerate(order)}
        after = [
            [position[successor] for successor in self._after[node] if successor in position]
            for node in order
        ]
        return self.joined(self.series([self.leaf(node) for node in order], after))

    def joined(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """A row with its modules grouped, and short enough."""
        return self.shorten(self._modules(items))

    def topological(self, nodes: Iterable[int]) -> list[int]:
        """Nodes in the order of dependencies, the earlier created first among equals."""
        if self._ascending:
            return sorted(nodes)
        degree = dict.fromkeys(nodes, 0)
        for node in degree:
            for after in self._after[node]:
                if after in degree:
                    degree[after] += 1
        ready = [node for node, count in degree.items() if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            node = heapq.heappop(ready)
            order.append(node)
            for after in self._after[node]:
                if after in degree:
                    degree[after] -= 1
                    if degree[after] == 0:
                        heapq.heappush(ready, after)
        return order

    # -- the spine and its regions ---------------------------------------------------------------

    def series(self, row: Sequence[GroupDraft], after: Sequence[Sequence[int]]) -> list[GroupDraft]:
        """The items along the spine of ``row``, which is in topological order; ``after`` has what
        each item leads to, by place."""
        count = len(row)
        inward = {index for reached in after for index in reached}
        # How far the edges reach that began before a place; roots and sinks hang on the outside.
        reach = next((index for index in range(count - 1, -1, -1) if index not in inward), -1)
        items: list[GroupDraft] = []
        region: list[int] = []
        for index, item in enumerate(row):
            if reach <= index:
                if region:
                    items += self._region(row, after, region)
                    region = []
                items.append(item)
            else:
                region.append(index)
            if after[index]:
                reach = max(reach, *after[index])
            elif index < count - 1:
                reach = count
        if region:
            items += self._region(row, after, region)
        return items

    def _region(
        self, row: Sequence[GroupDraft], after: Sequence[Sequence[int]], places: list[int]
    ) -> list[GroupDraft]:
        """What lies between two items of the spine: branches side by side, or a tangle."""
        parts = _components(after, places)
        if len(parts) == 1:
            return self.tangled([row[index] for index in places])
        branches = [self._branch(row, after, part) for part in parts]
        title = f"{len(parts)} branches"
        return [self.group(FoldKind.PARALLEL, title, self.parts(branches, self._beside))]

    def tangled(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """What stands for items whose branches cannot be taken apart."""
        title = f"{len(items)} entangled nodes"
        return [self.group(FoldKind.TANGLE, title, self.parts(items, self._knot))]

    def _knot(self, items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
        """Items ``begin`` to ``end`` of a tangle."""
        return self.group(FoldKind.TANGLE, self.work_title(items), items)

    def _beside(self, items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
        """Branches ``begin`` to ``end`` of many."""
        return self.group(FoldKind.PARALLEL, f"branches {begin + 1} to {end}", items)

    def _branch(
        self, row: Sequence[GroupDraft], after: Sequence[Sequence[int]], places: list[int]
    ) -> GroupDraft:
        own = [row[index] for index in places]
        position = {index: number for number, index in enumerate(places)}
        inner = [
            [position[successor] for successor in after[index] if successor in position]
            for index in places
        ]
        items = self.series(own, inner)
        if len(items) > 1:
            items = self.joined(items)
        if len(items) == 1:
            return items[0]
        return self.group(FoldKind.BRANCH, self._common_title(own), items)

    # -- groups along a row ----------------------------------------------------------------------

    def _modules(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Groups neighbours of the same phase and module, outermost module first."""
        return self._grouped(list(neighbours(items, [self.path_of(item) for item in items])), 0)

    def _grouped(self, row: Sequence[_Stretch], depth: int) -> list[GroupDraft]:
        """``row``, alike up to ``depth``, as groups by the next part of the path."""
        if len(row) == 1:
            return self.repeats(row[0][1])
        result: list[GroupDraft] = []
        for key, run in neighbours(row, [path[: depth + 1] for path, _ in row]):
            if len(key) <= depth or (len(run) == 1 and len(run[0][1]) == 1):
                result += run[0][1]
                continue
            inner = self._grouped(run, depth + 1)
            if len(run) == len(row):
                # The whole row: a group of its own would say nothing new.
                result += inner
            elif len(inner) == 1 and inner[0].kind is FoldKind.MODULE:
                result += inner
            else:
                title = ".".join(key[1:]) or key[0]
                result.append(self.group(FoldKind.MODULE, title, self.shorten(inner)))
        return self.repeats(result)

    def path_of(self, item: GroupDraft) -> Path:
        """The path of an item's first node."""
        while item.node < 0 and item.children:
            item = item.children[0]
        return self.paths[item.node]

    def _common_title(self, items: Sequence[GroupDraft]) -> str:
        """The module that holds all the nodes, else their phase."""
        nodes = [node for item in items for node in _own(item)]
        common = self.paths[nodes[0]]
        for node in nodes:
            common = shared(common, self.paths[node])
        phase = self.rows[nodes[0]].origin.phase
        return ".".join(common[1:]) or (phase if phase != "other" else "branch")


def shared(first: Path, second: Path) -> Path:
    """What two paths begin with."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return tuple(part for part, _ in pairs)


def _own(item: GroupDraft) -> Iterator[int]:
    """The nodes of an item, without those inside nodes."""
    if item.node >= 0:
        yield item.node
    elif item.kind is FoldKind.HOLDER:
        yield item.children[0].node
    else:
        for child in item.children:
            yield from _own(child)


def _components(after: Sequence[Sequence[int]], places: list[int]) -> list[list[int]]:
    """Weakly connected parts, each in the order given, the first to begin first."""
    near: dict[int, list[int]] = {index: [] for index in places}
    for index in places:
        for successor in after[index]:
            if successor in near:
                near[index].append(successor)
                near[successor].append(index)
    part_of: dict[int, int] = {}
    for start in places:
        if start in part_of:
            continue
        part_of[start] = start
        pending = [start]
        while pending:
            for other in near[pending.pop()]:
                if other not in part_of:
                    part_of[other] = start
                    pending.append(other)
    parts: dict[int, list[int]] = {}
    for index in places:
        parts.setdefault(part_of[index], []).append(index)
    return list(parts.values())


def _after(count: int, source: Ints, target: Ints) -> list[tuple[int, ...]]:
    """What each node's edges lead to."""
    by = np.argsort(source, kind="stable")
    ordered: list[int] = target[by].tolist()
    first: list[int] = np.searchsorted(source[by], np.arange(count + 1)).tolist()
    return [tuple(ordered[first[node] : first[node + 1]]) for node in range(count)]


def _module_paths(rows: Sequence[NodeRow]) -> list[Path]:
    """The path of each node, one object for all that are equal."""
    by_origin: dict[tuple[str, str | None, bool], Path] = {}
    paths = []
    for row in rows:
        key = (row.origin.phase, row.origin.module, row.origin.op is None)
        path = by_origin.get(key)
        if path is None:
            path = by_origin[key] = _module_path(row)
        paths.append(path)
    return paths


def _module_path(row: NodeRow) -> Path:
    """Phase, then the module path with numbers kept beside their container: ("forward",
    "Transformer", "layers.0", "attention"). Without a module the operator stands for it where one
    phase has no modules at all: the optimizer."""
    origin = row.origin
    if origin.module is None:
        return (origin.phase,) if origin.op is not None else ()
    parts: list[str] = []
    for part in origin.module.split("."):
        if part.isdigit() and parts:
            parts[-1] += f".{part}"
        else:
            parts.append(part)
    return (origin.phase, *parts)
