"""Folding of a graph by execution order: parallel branches, then modules in sequence.

The spine consists of nodes that no edge bypasses, with regions of parallel branches between them.
Neighbours of one phase and module form groups; equal or similar groups become repeats.
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
"""Path, and consecutive items with this path."""


class OrderFolder(FoldRows):
    """Folder by execution order."""

    def __init__(self, whole: WholeGraph) -> None:
        super().__init__(whole)
        edges = whole.table.graph.edges
        self.source = np.fromiter((edge.source for edge in edges), np.int64, len(edges))
        self.target = np.fromiter((edge.target for edge in edges), np.int64, len(edges))
        self._after = _after(len(self.rows), self.source, self.target)
        self._ascending = bool((self.source < self.target).all())
        self.paths = _module_paths(self.rows)

    def row_of(self, nodes: Sequence[int]) -> list[GroupDraft]:
        """Build the items along the spine, with modules grouped."""
        order = self.topological(nodes)
        position = {node: index for index, node in enumerate(order)}
        successors = [
            [position[successor] for successor in self._after[node] if successor in position]
            for node in order
        ]
        return self.joined(self.series([self.leaf(node) for node in order], successors))

    def joined(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Group the modules of a row and shorten it."""
        return self.shorten(self._modules(items))

    def topological(self, nodes: Iterable[int]) -> list[int]:
        """Sort nodes topologically, by creation order among equals."""
        if self._ascending:
            return sorted(nodes)
        degree = dict.fromkeys(nodes, 0)
        for node in degree:
            for successor in self._after[node]:
                if successor in degree:
                    degree[successor] += 1
        ready = [node for node, count in degree.items() if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            node = heapq.heappop(ready)
            order.append(node)
            for successor in self._after[node]:
                if successor in degree:
                    degree[successor] -= 1
                    if degree[successor] == 0:
                        heapq.heappush(ready, successor)
        return order

    # -- the spine and its regions ---------------------------------------------------------------

    def series(self, row: Sequence[GroupDraft], after: Sequence[Sequence[int]]) -> list[GroupDraft]:
        """Build the items along the spine of ``row``, given in topological order.

        ``after`` holds the successors of each item, by place.
        """
        count = len(row)
        targets = {index for following in after for index in following}
        # Farthest target of the edges so far; roots and sinks count as connected to the outside.
        farthest = next((index for index in range(count - 1, -1, -1) if index not in targets), -1)
        items: list[GroupDraft] = []
        region: list[int] = []
        for index, item in enumerate(row):
            if farthest <= index:
                if region:
                    items += self._region(row, after, region)
                    region = []
                items.append(item)
            else:
                region.append(index)
            if after[index]:
                farthest = max(farthest, *after[index])
            elif index < count - 1:
                farthest = count
        if region:
            items += self._region(row, after, region)
        return items

    def _region(
        self, row: Sequence[GroupDraft], after: Sequence[Sequence[int]], places: list[int]
    ) -> list[GroupDraft]:
        parts = _components(after, places)
        if len(parts) == 1:
            return self.tangled([row[index] for index in places])
        branches = [self._branch(row, after, part) for part in parts]
        title = f"{len(parts)} branches"
        return [self.group(FoldKind.PARALLEL, title, self.parts(branches, self._beside))]

    def tangled(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Group items whose branches cannot be separated."""
        title = f"{len(items)} entangled nodes"
        return [self.group(FoldKind.TANGLE, title, self.parts(items, self._knot))]

    def _knot(self, items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
        """Group items ``begin`` to ``end`` of a tangle."""
        return self.group(FoldKind.TANGLE, self.work_title(items), items)

    def _beside(self, items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
        """Group branches ``begin`` to ``end`` of many."""
        return self.group(FoldKind.PARALLEL, f"branches {begin + 1} to {end}", items)

    def _branch(
        self, row: Sequence[GroupDraft], after: Sequence[Sequence[int]], places: list[int]
    ) -> GroupDraft:
        branch_items = [row[index] for index in places]
        position = {index: number for number, index in enumerate(places)}
        inner = [
            [position[successor] for successor in after[index] if successor in position]
            for index in places
        ]
        items = self.series(branch_items, inner)
        if len(items) > 1:
            items = self.joined(items)
        if len(items) == 1:
            return items[0]
        return self.group(FoldKind.BRANCH, self._common_title(branch_items), items)

    # -- groups along a row ----------------------------------------------------------------------

    def _modules(self, items: list[GroupDraft]) -> list[GroupDraft]:
        return self._grouped(list(neighbours(items, [self.path_of(item) for item in items])), 0)

    def _grouped(self, row: Sequence[_Stretch], depth: int) -> list[GroupDraft]:
        """Group ``row``, equal up to ``depth``, by the next path element."""
        if len(row) == 1:
            return self.repeats(row[0][1])
        result: list[GroupDraft] = []
        for key, run in neighbours(row, [path[: depth + 1] for path, _ in row]):
            if len(key) <= depth or (len(run) == 1 and len(run[0][1]) == 1):
                result += run[0][1]
                continue
            children = self._grouped(run, depth + 1)
            if len(run) == len(row):
                # The whole row: a separate group would add nothing.
                result += children
            elif len(children) == 1 and children[0].kind is FoldKind.MODULE:
                result += children
            else:
                title = ".".join(key[1:]) or key[0]
                result.append(self.group(FoldKind.MODULE, title, self.shorten(children)))
        return self.repeats(result)

    def path_of(self, item: GroupDraft) -> Path:
        """Return the path of an item's first node."""
        while item.node < 0 and item.children:
            item = item.children[0]
        return self.paths[item.node]

    def _common_title(self, items: Sequence[GroupDraft]) -> str:
        nodes = [node for item in items for node in _own(item)]
        common = self.paths[nodes[0]]
        for node in nodes:
            common = shared(common, self.paths[node])
        phase = self.rows[nodes[0]].origin.phase
        return ".".join(common[1:]) or (phase if phase != "other" else "branch")


def shared(first: Path, second: Path) -> Path:
    """Return the common prefix of two paths."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return tuple(part for part, _ in pairs)


def _own(item: GroupDraft) -> Iterator[int]:
    if item.node >= 0:
        yield item.node
    elif item.kind is FoldKind.HOLDER:
        yield item.children[0].node
    else:
        for child in item.children:
            yield from _own(child)


def _components(after: Sequence[Sequence[int]], places: list[int]) -> list[list[int]]:
    adjacent: dict[int, list[int]] = {index: [] for index in places}
    for index in places:
        for successor in after[index]:
            if successor in adjacent:
                adjacent[index].append(successor)
                adjacent[successor].append(index)
    part_of: dict[int, int] = {}
    for start in places:
        if start in part_of:
            continue
        part_of[start] = start
        pending = [start]
        while pending:
            for neighbour in adjacent[pending.pop()]:
                if neighbour not in part_of:
                    part_of[neighbour] = start
                    pending.append(neighbour)
    parts: dict[int, list[int]] = {}
    for index in places:
        parts.setdefault(part_of[index], []).append(index)
    return list(parts.values())


def _after(count: int, source: Ints, target: Ints) -> list[tuple[int, ...]]:
    edge_order = np.argsort(source, kind="stable")
    ordered: list[int] = target[edge_order].tolist()
    first: list[int] = np.searchsorted(source[edge_order], np.arange(count + 1)).tolist()
    return [tuple(ordered[first[node] : first[node + 1]]) for node in range(count)]


def _module_paths(rows: Sequence[NodeRow]) -> list[Path]:
    """Build the path of each node; equal paths share one object."""
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
    """Build a path from phase and module, with numbers attached to their container."""
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
