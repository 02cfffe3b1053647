"""Folding of a graph by execution order: parallel branches, then modules in sequence.

The spine consists of nodes that no edge bypasses, with parallel branches between them. Neighbours
of one phase and module form groups; equal or similar groups become repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.topology import sort_topologically
from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.folding.rows import FoldRows, GroupDraft, group_neighbours
from graphviz_dash.features.graph.folding.tree import FoldKind

Path: TypeAlias = tuple[str, ...]
"""Phase and module path of a node: ("forward", "Transformer", "layers.0", "attention")."""

_PathRun: TypeAlias = tuple[Path, list[GroupDraft]]


class OrderFolder(FoldRows):
    """Folder by execution order."""

    def __init__(self, full_graph: ExpandedGraph) -> None:
        super().__init__(full_graph)
        edges = full_graph.table.graph.edges
        self.source = np.fromiter((edge.source for edge in edges), np.int64, len(edges))
        self.target = np.fromiter((edge.target for edge in edges), np.int64, len(edges))
        self._successors = _list_successors(len(self.rows), self.source, self.target)
        self._ascending = bool((self.source < self.target).all())
        self.paths = _build_module_paths(self.rows)

    def build_row(self, nodes: Sequence[int]) -> list[GroupDraft]:
        """Build the items along the spine, with modules grouped."""
        order = self.sort_topologically(nodes)
        position = {node: index for index, node in enumerate(order)}
        successors = [
            [position[successor] for successor in self._successors[node] if successor in position]
            for node in order
        ]
        return self.shorten_row(
            self.build_series([self.build_leaf(node) for node in order], successors)
        )

    def shorten_row(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Group the modules of a row and shorten it."""
        return self.shorten(self._group_modules(items))

    def sort_topologically(self, nodes: Iterable[int]) -> list[int]:
        """Sort nodes topologically, by creation order among equals."""
        if self._ascending:
            return sorted(nodes)
        return sort_topologically(nodes, self._successors)

    # -- the spine and its regions ---------------------------------------------------------------

    def build_series(
        self, row: Sequence[GroupDraft], successors: Sequence[Sequence[int]]
    ) -> list[GroupDraft]:
        """Build the items along the spine of ``row``, given in topological order.

        ``successors`` are by place.
        """
        count = len(row)
        targets = {index for following in successors for index in following}
        # Farthest target of the edges so far; roots and sinks count as connected to the outside.
        farthest = next((index for index in range(count - 1, -1, -1) if index not in targets), -1)
        items: list[GroupDraft] = []
        region: list[int] = []
        for index, item in enumerate(row):
            if farthest <= index:
                if region:
                    items += self._build_region(row, successors, region)
                    region = []
                items.append(item)
            else:
                region.append(index)
            if successors[index]:
                farthest = max(farthest, *successors[index])
            elif index < count - 1:
                farthest = count
        if region:
            items += self._build_region(row, successors, region)
        return items

    def _build_region(
        self, row: Sequence[GroupDraft], successors: Sequence[Sequence[int]], positions: list[int]
    ) -> list[GroupDraft]:
        parts = _find_components(successors, positions)
        if len(parts) == 1:
            return self.group_tangle([row[index] for index in positions])
        branches = [self._build_branch(row, successors, part) for part in parts]
        title = f"{len(parts)} branches"
        return [
            self.build_group(
                FoldKind.PARALLEL, title, self.split_into_parts(branches, self._group_branches)
            )
        ]

    def group_tangle(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Group items whose branches cannot be separated."""
        title = f"{len(items)} interleaved {'node' if len(items) == 1 else 'nodes'}"
        return [
            self.build_group(
                FoldKind.TANGLE, title, self.split_into_parts(items, self._group_tangle_part)
            )
        ]

    def _group_tangle_part(self, items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
        return self.build_group(FoldKind.TANGLE, self.make_work_title(items), items)

    def _group_branches(self, items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
        return self.build_group(FoldKind.PARALLEL, f"branches {begin + 1} to {end}", items)

    def _build_branch(
        self, row: Sequence[GroupDraft], successors: Sequence[Sequence[int]], positions: list[int]
    ) -> GroupDraft:
        branch_items = [row[index] for index in positions]
        position = {index: number for number, index in enumerate(positions)}
        inner = [
            [position[successor] for successor in successors[index] if successor in position]
            for index in positions
        ]
        items = self.build_series(branch_items, inner)
        if len(items) > 1:
            items = self.shorten_row(items)
        if len(items) == 1:
            return items[0]
        return self.build_group(FoldKind.BRANCH, self._find_common_title(branch_items), items)

    # -- groups along a row ----------------------------------------------------------------------

    def _group_modules(self, items: list[GroupDraft]) -> list[GroupDraft]:
        return self._group_by_path(
            list(group_neighbours(items, [self.get_path(item) for item in items])), 0
        )

    def _group_by_path(self, row: Sequence[_PathRun], depth: int) -> list[GroupDraft]:
        """Group a row, equal up to ``depth``, by the next path element."""
        if len(row) == 1:
            return self.merge_repeats(row[0][1])
        result: list[GroupDraft] = []
        for key, run in group_neighbours(row, [path[: depth + 1] for path, _ in row]):
            if len(key) <= depth or (len(run) == 1 and len(run[0][1]) == 1):
                result += run[0][1]
                continue
            children = self._group_by_path(run, depth + 1)
            if len(run) == len(row):
                # The whole row: a separate group would add nothing.
                result += children
            elif len(children) == 1 and children[0].kind is FoldKind.MODULE:
                result += children
            else:
                title = ".".join(key[1:]) or key[0]
                result.append(self.build_group(FoldKind.MODULE, title, self.shorten(children)))
        return self.merge_repeats(result)

    def get_path(self, item: GroupDraft) -> Path:
        """Return the path of an item's first node."""
        while item.node < 0 and item.children:
            item = item.children[0]
        return self.paths[item.node]

    def _find_common_title(self, items: Sequence[GroupDraft]) -> str:
        nodes = [node for item in items for node in _iter_nodes(item)]
        common = self.paths[nodes[0]]
        for node in nodes:
            common = find_common_prefix(common, self.paths[node])
        phase = self.rows[nodes[0]].origin.phase
        return ".".join(common[1:]) or (phase if phase != "other" else "branch")


def find_common_prefix(first: Path, second: Path) -> Path:
    """Return the common prefix of two paths."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return tuple(part for part, _ in pairs)


def _iter_nodes(item: GroupDraft) -> Iterator[int]:
    if item.node >= 0:
        yield item.node
    elif item.kind is FoldKind.HOLDER:
        yield item.children[0].node
    else:
        for child in item.children:
            yield from _iter_nodes(child)


def _find_components(successors: Sequence[Sequence[int]], positions: list[int]) -> list[list[int]]:
    """Find the connected parts of ascending ``positions``."""
    part_of = {index: [index] for index in positions}
    for index in positions:
        for successor in successors[index]:
            smaller, larger = part_of[index], part_of.get(successor, part_of[index])
            if smaller is larger:
                continue
            if len(smaller) > len(larger):
                smaller, larger = larger, smaller
            larger += smaller
            part_of.update(dict.fromkeys(smaller, larger))
    return [sorted(part) for part in {id(part): part for part in part_of.values()}.values()]


def _list_successors(count: int, source: Ints, target: Ints) -> list[tuple[int, ...]]:
    edge_order = np.argsort(source, kind="stable")
    ordered: list[int] = target[edge_order].tolist()
    first: list[int] = np.searchsorted(source[edge_order], np.arange(count + 1)).tolist()
    return [tuple(ordered[first[node] : first[node + 1]]) for node in range(count)]


def _build_module_paths(rows: Sequence[NodeRow]) -> list[Path]:
    """Build the path of each node; equal paths share one object."""
    by_origin: dict[tuple[str, str | None, bool], Path] = {}
    paths = []
    for row in rows:
        key = (row.origin.phase, row.origin.module, row.origin.op is None)
        path = by_origin.get(key)
        if path is None:
            path = by_origin[key] = _build_module_path(row)
        paths.append(path)
    return paths


def _build_module_path(row: NodeRow) -> Path:
    """Join phase and module; numbers stay attached to their container."""
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
