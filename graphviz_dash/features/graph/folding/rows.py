"""Shortening of rows of a folded graph: repeats, runs of nodes, even parts."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.features.graph.folding.similarity import (
    find_similar_blocks,
    group_runs,
    is_similar,
)
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldItem, FoldKind, Leaf, LeafOrder

MAX_CHILDREN: Final = 64
"""Children of a group; longer rows are split into even parts recursively."""

_MAX_PERIOD: Final = 512

_MIN_FOLDED_ROW: Final = 48
"""Row length from which repeats and runs are searched."""

_MAX_SHORT_ROW: Final = 8
"""Row length, with equal blocks folded, above which similar blocks are searched; they are preferred
if they halve it."""

_MIN_SIMILAR: Final = 3
"""Consecutive numbered groups for a repeat of similar groups."""

_MAX_TITLE_NAMES: Final = 3

_MIN_RUN: Final = 8
"""Consecutive single nodes to fold in a long row."""


class GroupDraft(Struct):
    """A group without an id yet; a leaf has a node and no children."""

    kind: FoldKind
    title: str
    """Title of the group; empty for a leaf."""
    children: Sequence[GroupDraft]
    node: int = -1
    """Node index of a leaf; -1 for a group."""
    size: int = 1
    shape: int = 0
    """Shape number; equal for equal groups."""
    repeats: int = 0
    """Blocks of a REPEAT; 0 for other groups."""
    is_part: bool = False
    """Holds some of the blocks of the enclosing REPEAT."""
    note: str = ""
    """Note next to the title; may be empty."""


class FoldRows(ABC):
    """Base of all folders: leaves with their contents, and shortening of rows."""

    def __init__(self, full_graph: ExpandedGraph) -> None:
        self.rows: Sequence[NodeRow] = full_graph.table.rows
        self._bodies = full_graph.bodies
        self._codes: dict[object, int] = {}
        # Blocks of a repeat are rows with the same shapes, so results are cached.
        self._borders_of: dict[tuple[int, ...], list[list[tuple[int, int]]]] = {}

    @abstractmethod
    def build_row(self, nodes: Sequence[int]) -> list[GroupDraft]:
        """Build the items of a graph or nested graph."""

    def build_graph_tree(self, nodes: Sequence[int], note: str = "") -> FoldGroup:
        """Build the tree of a graph."""
        root = GroupDraft(FoldKind.GRAPH, "graph", self.build_row(nodes), note=note)
        return self._number_group(root, "g", 0, LeafOrder(iter_leaves(root)))

    # -- making a row shorter --------------------------------------------------------------------

    def merge_repeats(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Merge consecutive groups that are equal, or numbered and similar."""
        if all(item.node >= 0 for item in items):
            return items
        result: list[GroupDraft] = []
        for _, similar_items in group_neighbours(items, self._number_families(items)):
            rows = [similar_items]
            if len(similar_items) < _MIN_SIMILAR:
                rows = [
                    run
                    for _, run in group_neighbours(
                        similar_items, [item.shape for item in similar_items]
                    )
                ]
            for run in rows:
                if len(run) < 2 or run[0].node >= 0:
                    result += run
                    continue
                result.append(self._build_repeat(_merge_titles(run[0].title, run[-1].title), run))
        return result

    def _number_families(self, items: list[GroupDraft]) -> list[int]:
        """Number the items; neighbours of one repeat share a number."""
        families = [0]
        for previous, item in pairwise(items):
            families.append(
                families[-1] if self._is_same_repeat(previous, item) else families[-1] + 1
            )
        return families

    def _is_same_repeat(self, earlier: GroupDraft, later: GroupDraft) -> bool:
        if earlier.shape == later.shape:
            return True
        if earlier.node >= 0 or later.node >= 0:
            return False
        first, second = (
            _NUMBERED_TITLE.fullmatch(earlier.title),
            _NUMBERED_TITLE.fullmatch(later.title),
        )
        if first is None or second is None or first[1] != second[1]:
            return False
        return is_similar(self._count_shapes(earlier), self._count_shapes(later))

    def _count_shapes(self, draft: GroupDraft) -> Counter[int]:
        return Counter(self._get_look_code(self.rows[node]) for node in iter_leaves(draft))

    def shorten(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Fold blocks and runs, and split into even parts, until a row is short."""
        if len(items) < _MIN_FOLDED_ROW:
            return items
        items = self._fold_blocks(items)
        if len(items) >= _MIN_FOLDED_ROW:
            items = self._fold_long_runs(items)
        return self.split_into_parts(items, lambda part, begin, end: self._build_run(part))

    def split_into_parts(
        self,
        items: list[GroupDraft],
        group: Callable[[list[GroupDraft], int, int], GroupDraft],
        begin: int = 0,
        max_items: int = MAX_CHILDREN,
    ) -> list[GroupDraft]:
        """Split a long row into even parts.

        ``group`` builds a part from its items, start and end, counted from ``begin``.
        """
        if len(items) <= max_items:
            return items
        levels = 2
        while max_items**levels < len(items):
            levels += 1
        # Equal width on each level, to avoid two parts on one level and sixty on the next.
        width = min(max_items, math.ceil(len(items) ** (1 / levels)))
        size = -(-len(items) // width)
        parts = []
        for start in range(0, len(items), size):
            part = items[start : start + size]
            children = self.split_into_parts(part, group, begin + start, max_items)
            parts.append(group(children, begin + start, begin + start + len(part)))
        return parts

    def _build_repeat(self, title: str, blocks: list[GroupDraft]) -> GroupDraft:

        def build_part(items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
            first, last = blocks[begin].title, blocks[end - 1].title
            span = _merge_titles(first, last)
            part_title = span if first != last else f"{title}, {begin + 1} to {end}"
            group = self._build_repeat_group(part_title, items, end - begin)
            group.is_part = True
            return group

        return self._build_repeat_group(
            title, self.split_into_parts(blocks, build_part), len(blocks)
        )

    def _build_repeat_group(
        self, title: str, children: list[GroupDraft], repeats: int
    ) -> GroupDraft:
        group = self.build_group(FoldKind.REPEAT, title, children)
        group.repeats = repeats
        return group

    def _fold_blocks(self, items: list[GroupDraft]) -> list[GroupDraft]:
        result: list[GroupDraft] = []
        folded = 0
        for borders in self._find_borders(tuple(item.shape for item in items)):
            result += items[folded : borders[0][0]]
            drafts = [self._build_run(items[begin:end]) for begin, end in borders]
            title = _merge_titles(drafts[0].title, drafts[-1].title) or self.make_work_title(drafts)
            result.append(self._build_repeat(title, drafts))
            folded = borders[-1][1]
        return result + items[folded:]

    def _find_borders(self, row: tuple[int, ...]) -> list[list[tuple[int, int]]]:
        """Find borders of tandem repeats, or of similar blocks if much shorter."""
        cached = self._borders_of.get(row)
        if cached is not None:
            return cached
        shapes = np.array(row, dtype=np.int64)
        covered_items = np.zeros(len(row), dtype=bool)
        selected: list[list[tuple[int, int]]] = []
        for covered, start, period in _find_tandems(shapes):
            if not covered_items[start : start + covered].any():
                covered_items[start : start + covered] = True
                starts = range(start, start + covered, period)
                selected.append([(begin, begin + period) for begin in starts])
        remaining = len(row) - int(covered_items.sum()) + len(selected)
        if remaining > _MAX_SHORT_ROW:
            covered, blocks = find_similar_blocks(shapes)
            runs = group_runs(blocks)
            if 2 * (len(row) - covered + len(runs)) <= remaining:
                selected = runs
        self._borders_of[row] = sorted(selected)
        return self._borders_of[row]

    def _fold_long_runs(self, items: list[GroupDraft]) -> list[GroupDraft]:
        result: list[GroupDraft] = []
        for is_leaf, run in group_neighbours(items, [item.node >= 0 for item in items]):
            if is_leaf and len(run) >= _MIN_RUN:
                size = -(-len(run) // max(1, round(len(run) / 24)))
                parts = [run[start : start + size] for start in range(0, len(run), size)]
                result += [self._build_run(part) for part in parts]
            else:
                result += run
        return result

    def _build_run(self, items: list[GroupDraft]) -> GroupDraft:
        if len(items) == 1:
            return items[0]
        return self.build_group(FoldKind.RUN, self.make_work_title(items), items)

    # -- pieces ----------------------------------------------------------------------------------

    def build_leaf(self, node: int) -> GroupDraft:
        """Build a leaf, or a group of a node and its bodies."""
        row = self.rows[node]
        shape = self._get_look_code(row)
        leaf = GroupDraft(FoldKind.RUN, "", (), node, 1, shape)
        bodies = [body for body in self._bodies.get(node, ()) if body.nodes]
        if not bodies:
            return leaf
        groups = [
            self.build_group(FoldKind.BODY, body.title, self.build_row(body.nodes))
            for body in bodies
        ]
        children = self.split_into_parts(groups, self._group_bodies, 0, MAX_CHILDREN - 1)
        return self.build_group(
            FoldKind.HOLDER, _format_holder_title(row, len(bodies)), [leaf, *children]
        )

    def _get_look_code(self, row: NodeRow) -> int:
        return self._get_code((row.node.kind, row.node.label))

    def _group_bodies(self, items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
        return self.build_group(FoldKind.PARALLEL, f"bodies {begin + 1} to {end}", items)

    def build_group(self, kind: FoldKind, title: str, children: Sequence[GroupDraft]) -> GroupDraft:
        """Build a group; equal kinds and child shapes make equal groups."""
        shape = self._get_code((kind, tuple(child.shape for child in children)))
        size = sum(child.size for child in children)
        return GroupDraft(kind, title, children, size=size, shape=shape)

    def _get_code(self, key: object) -> int:
        return self._codes.setdefault(key, len(self._codes))

    def make_work_title(self, items: list[GroupDraft]) -> str:
        """Name a run after its groups, or its most common operator or kernel."""
        modules = [item for item in items if item.kind is FoldKind.MODULE]
        if 2 * sum(item.size for item in modules) > sum(item.size for item in items):
            titles = list(dict.fromkeys(item.title for item in modules))
            span = _merge_titles(titles[0], titles[-1])
            if span != titles[0]:
                return span
            return ", ".join(titles[:_MAX_TITLE_NAMES]) + (
                ", …" if titles[_MAX_TITLE_NAMES:] else ""
            )
        names: Counter[str] = Counter()
        pending = list(items)
        while pending:
            item = pending.pop()
            pending += item.children
            if item.node >= 0:
                row = self.rows[item.node]
                names[row.origin.op or shorten_name(row.node.label)] += 1
        (name, _), *others = names.most_common()
        return f"{name}{_AND_OTHERS}" if others else name

    def _rename_siblings(self, draft: GroupDraft) -> None:
        """Give siblings of one title a number and the name of their longest node.

        Blocks of a REPEAT are numbered where they are shown.
        """
        if draft.kind is FoldKind.REPEAT:
            return
        siblings: dict[str, list[GroupDraft]] = {}
        for child in draft.children:
            if child.kind in _NAMED_BY_WORK and child.node < 0:
                siblings.setdefault(child.title, []).append(child)
        for title, group in siblings.items():
            others = _AND_OTHERS if title.endswith(_AND_OTHERS) else ""
            for number, child in enumerate(group, 1):
                if len(group) > 1:
                    child.title = f"{number}: {self._find_longest_name(child)}{others}"

    def _find_longest_name(self, draft: GroupDraft) -> str:
        """Return the operator or kernel of the longest node; the first if none was timed."""
        rows = [self.rows[node] for node in iter_leaves(draft)]
        row = max(rows, key=lambda node_row: node_row.times.median_ns or 0.0)
        return row.origin.op or shorten_name(row.node.label)

    def _number_group(
        self, draft: GroupDraft, ident: str, first: int, order: LeafOrder
    ) -> FoldGroup:
        self._rename_siblings(draft)
        children: list[FoldItem] = []
        leaf = first
        for position, child in enumerate(draft.children):
            if child.node >= 0:
                children.append(Leaf(f"n{child.node}", child.node))
                leaf += 1
            else:
                group = self._number_group(child, f"{ident}.{position}", leaf, order)
                children.append(group)
                leaf += group.count
        return FoldGroup(
            ident,
            draft.kind,
            draft.title,
            tuple(children),
            first,
            leaf - first,
            order,
            draft.repeats,
            draft.shape,
            draft.is_part,
            draft.note,
        )


_AND_OTHERS: Final = " and others"
_NAMED_BY_WORK: Final = (FoldKind.RUN, FoldKind.TANGLE, FoldKind.REPEAT)
"""Kinds named after their most common work."""


def iter_leaves(draft: GroupDraft) -> Iterator[int]:
    """Iterate over the nodes of a group in leaf order."""
    pending = [draft]
    while pending:
        item = pending.pop()
        if item.node >= 0:
            yield item.node
        else:
            pending.extend(reversed(item.children))


def group_neighbours(items: Sequence[Any], keys: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Group consecutive items with equal keys."""
    start = 0
    for index in range(1, len(items) + 1):
        if index == len(items) or keys[index] != keys[start]:
            yield keys[start], list(items[start:index])
            start = index


def _format_holder_title(row: NodeRow, bodies: int) -> str:
    label = row.node.label
    return f"{label}, {bodies} bodies" if bodies > 1 else label


_NUMBERED_TITLE: Final = re.compile(r"(.*)\.(\d+)(?:-(\d+))?")


def _merge_titles(first: str, last: str) -> str:
    """Merge "layers.0" and "layers.3", or "layers.0-1" and "layers.2-3", to "layers.0-3".

    Titles of another form give the first.
    """
    first_match, last_match = _NUMBERED_TITLE.fullmatch(first), _NUMBERED_TITLE.fullmatch(last)
    if (
        first == last
        or first_match is None
        or last_match is None
        or first_match[1] != last_match[1]
    ):
        return first
    numbers = [int(text) for text in (*first_match.groups()[1:], *last_match.groups()[1:]) if text]
    return f"{first_match[1]}.{min(numbers)}-{max(numbers)}"


def _find_tandems(shapes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, int, int]]:
    """Find directly repeating blocks: (items covered, start, period).

    Sorted by descending coverage, then by period. A period of one needs many repetitions.
    """
    tandems = []
    for period in range(1, min(_MAX_PERIOD, len(shapes) // 2) + 1):
        equal = shapes[:-period] == shapes[period:]
        edges = np.flatnonzero(np.diff(np.concatenate(([False], equal, [False])).astype(np.int8)))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            covered = (end - start) // period * period + period
            if covered >= 2 * period and (period > 1 or covered >= _MIN_RUN):
                tandems.append((covered, start, period))
    tandems.sort(key=lambda tandem: (-tandem[0], tandem[2], tandem[1]))
    return tandems
