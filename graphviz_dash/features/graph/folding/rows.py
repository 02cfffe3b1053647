"""Rows of a folded graph made short enough to be read: repeats, runs of nodes, even parts.

What a row is made of, by_order.py and by_module.py say.
"""

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
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.features.graph.folding.similarity import alike, alike_blocks, runs_of
from graphviz_dash.features.graph.folding.tree import Fold, FoldKind, Group, Leaf, LeafOrder

MOST_CHILDREN: Final = 64
"""Children of one group, a graph inside a node and its node included; longer rows are cut into even
parts, and these again, so that every group can be unfolded."""

_LONGEST_PERIOD: Final = 512
"""Longest repeated block that is looked for, in items."""

_FOLD_FROM: Final = 48
"""Rows of at least this many items are searched for repeats and runs; shorter ones are read as
they are."""

_SHORT: Final = 8
"""Items of a row, its equal blocks folded, up to which no blocks are looked for that are only
alike. They are preferred where they make it half as long."""

_FEWEST_ALIKE: Final = 3
"""Numbered groups in a row that are a repeat though they are not all equal."""

_MOST_NAMED: Final = 3
"""Groups that the title of a row of them names."""

_SHORTEST_RUN: Final = 8
"""Single nodes in a row that are folded in a row of _FOLD_FROM or more."""


class GroupDraft(Struct):
    """A group before it has its id; a leaf has a node and no children."""

    kind: FoldKind
    """What the group is."""
    title: str
    """Title of the group; empty for a leaf."""
    children: Sequence[GroupDraft]
    """What lies in it, in order."""
    node: int = -1
    """Index of a leaf's node; -1 for a group."""
    size: int = 1
    """Nodes in all that lies in it."""
    shape: int = 0
    """Number of its look: equal for equal groups."""
    repeats: int = 0
    """Blocks of a REPEAT; 0 for other groups."""
    part: bool = False
    """Whether it is some of the blocks of the REPEAT around it."""
    note: str = ""
    """What is said beside the title; empty where there is nothing to say."""


class FoldRows(ABC):
    """What all ways to fold a graph have in common: leaves with what they hold, rows made short."""

    def __init__(self, whole: WholeGraph) -> None:
        self.rows: Sequence[NodeRow] = whole.table.rows
        self._bodies = whole.bodies
        self._codes: dict[object, int] = {}
        # Blocks of a repeat are rows of the same shapes, over and over.
        self._borders_of: dict[tuple[int, ...], list[list[tuple[int, int]]]] = {}

    @abstractmethod
    def row_of(self, nodes: Sequence[int]) -> list[GroupDraft]:
        """The items of a graph, or of one inside a node, whose nodes are ``nodes``."""

    def tree(self, nodes: Sequence[int], note: str = "") -> Group:
        """The tree of a graph with the nodes ``nodes`` and all that lies in them."""
        root = GroupDraft(FoldKind.GRAPH, "graph", self.row_of(nodes), note=note)
        return self._numbered(root, "g", 0, LeafOrder(leaves(root)))

    # -- making a row shorter --------------------------------------------------------------------

    def repeats(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Groups in a row that are equal, or numbered and alike, become one repeat."""
        if all(item.node >= 0 for item in items):
            return items
        result: list[GroupDraft] = []
        for _, alike_ones in neighbours(items, self._families(items)):
            rows = [alike_ones]
            if len(alike_ones) < _FEWEST_ALIKE:
                rows = [
                    run for _, run in neighbours(alike_ones, [item.shape for item in alike_ones])
                ]
            for run in rows:
                if len(run) < 2 or run[0].node >= 0:
                    result += run
                    continue
                result.append(self._repeat(_span_title(run[0].title, run[-1].title), run))
        return result

    def _families(self, items: list[GroupDraft]) -> list[int]:
        """A number for each item, the same for neighbours that belong to one repeat."""
        families = [0]
        for before, item in pairwise(items):
            families.append(families[-1] if self._akin(before, item) else families[-1] + 1)
        return families

    def _akin(self, earlier: GroupDraft, later: GroupDraft) -> bool:
        if earlier.shape == later.shape:
            return True
        if earlier.node >= 0 or later.node >= 0:
            return False
        first, second = _NUMBERED.fullmatch(earlier.title), _NUMBERED.fullmatch(later.title)
        if first is None or second is None or first[1] != second[1]:
            return False
        return alike(self._inside(earlier), self._inside(later))

    def _inside(self, draft: GroupDraft) -> Counter[int]:
        """What the nodes of a group look like."""
        return Counter(self._look(self.rows[node]) for node in leaves(draft))

    def shorten(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Repeated blocks, runs and even parts, until a row is short enough to be read."""
        if len(items) < _FOLD_FROM:
            return items
        items = self._blocks(items)
        if len(items) >= _FOLD_FROM:
            items = self._long_runs(items)
        return self.parts(items, lambda part, begin, end: self._run(part))

    def parts(
        self, items: list[GroupDraft], group: Callable[[list[GroupDraft], int, int], GroupDraft]
    ) -> list[GroupDraft]:
        """A row as it is, or in even parts where it is too long; ``group`` makes a part from its
        items and where they begin and end."""
        return self._even(items, group, 0, MOST_CHILDREN)

    def _even(
        self,
        items: list[GroupDraft],
        group: Callable[[list[GroupDraft], int, int], GroupDraft],
        begin: int,
        most: int,
    ) -> list[GroupDraft]:
        if len(items) <= most:
            return items
        levels = 2
        while most**levels < len(items):
            levels += 1
        # As wide on each level, so that no level has two parts and the next one sixty.
        wide = min(most, math.ceil(len(items) ** (1 / levels)))
        size = -(-len(items) // wide)
        parts = []
        for start in range(0, len(items), size):
            part = items[start : start + size]
            inside = self._even(part, group, begin + start, most)
            parts.append(group(inside, begin + start, begin + start + len(part)))
        return parts

    def _repeat(self, title: str, blocks: list[GroupDraft]) -> GroupDraft:
        """Blocks in a row that are equal or alike."""

        def part(items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
            first, last = blocks[begin].title, blocks[end - 1].title
            span = _span_title(first, last)
            of = span if first != last else f"{title}, {begin + 1} to {end}"
            group = self._repeat_of(of, items, end - begin)
            group.part = True
            return group

        return self._repeat_of(title, self.parts(blocks, part), len(blocks))

    def _repeat_of(self, title: str, children: list[GroupDraft], repeats: int) -> GroupDraft:
        group = self.group(FoldKind.REPEAT, title, children)
        group.repeats = repeats
        return group

    def _blocks(self, items: list[GroupDraft]) -> list[GroupDraft]:
        """Folds repeats of blocks of items."""
        result: list[GroupDraft] = []
        folded = 0
        for borders in self._borders(tuple(item.shape for item in items)):
            result += items[folded : borders[0][0]]
            drafts = [self._run(items[begin:end]) for begin, end in borders]
            title = _span_title(drafts[0].title, drafts[-1].title) or self.work_title(drafts)
            result.append(self._repeat(title, drafts))
            folded = borders[-1][1]
        return result + items[folded:]

    def _borders(self, row: tuple[int, ...]) -> list[list[tuple[int, int]]]:
        """Where the blocks of repeats in a row of shapes begin and end: tandem repeats, those that
        cover most first; of blocks that are only alike, where that leaves a much shorter row."""
        cached = self._borders_of.get(row)
        if cached is not None:
            return cached
        shapes = np.array(row, dtype=np.int64)
        covered_items = np.zeros(len(row), dtype=bool)
        chosen: list[list[tuple[int, int]]] = []
        for covered, start, period in _tandem(shapes):
            if not covered_items[start : start + covered].any():
                covered_items[start : start + covered] = True
                starts = range(start, start + covered, period)
                chosen.append([(begin, begin + period) for begin in starts])
        left = len(row) - int(covered_items.sum()) + len(chosen)
        if left > _SHORT:
            covered, blocks = alike_blocks(shapes)
            runs = runs_of(blocks)
            if 2 * (len(row) - covered + len(runs)) <= left:
                chosen = runs
        self._borders_of[row] = sorted(chosen)
        return self._borders_of[row]

    def _long_runs(self, items: list[GroupDraft]) -> list[GroupDraft]:
        result: list[GroupDraft] = []
        for single, run in neighbours(items, [item.node >= 0 for item in items]):
            if single and len(run) >= _SHORTEST_RUN:
                size = -(-len(run) // max(1, round(len(run) / 24)))
                parts = [run[at : at + size] for at in range(0, len(run), size)]
                result += [self._run(part) for part in parts]
            else:
                result += run
        return result

    def _run(self, items: list[GroupDraft]) -> GroupDraft:
        if len(items) == 1:
            return items[0]
        return self.group(FoldKind.RUN, self.work_title(items), items)

    # -- pieces ----------------------------------------------------------------------------------

    def leaf(self, node: int) -> GroupDraft:
        """A node by itself, or with what it holds."""
        row = self.rows[node]
        shape = self._look(row)
        leaf = GroupDraft(FoldKind.RUN, "", (), node, 1, shape)
        if node not in self._bodies:
            return leaf
        bodies = [body for body in self._bodies[node] if body.nodes]
        if not bodies:
            return leaf
        groups = [
            self.group(
                FoldKind.BODY,
                body.title,
                self.row_of(body.nodes),
            )
            for body in bodies
        ]
        inside = self._even(groups, self._cases, 0, MOST_CHILDREN - 1)
        return self.group(FoldKind.HOLDER, _holder_title(row, len(bodies)), [leaf, *inside])

    def _look(self, row: NodeRow) -> int:
        return self._code((row.node.kind, row.node.label))

    def _cases(self, items: list[GroupDraft], begin: int, end: int) -> GroupDraft:
        """Bodies ``begin`` to ``end`` of many."""
        return self.group(FoldKind.PARALLEL, f"bodies {begin + 1} to {end}", items)

    def group(self, kind: FoldKind, title: str, children: Sequence[GroupDraft]) -> GroupDraft:
        """A group of ``children``; those of one kind with children of the same shapes are equal."""
        shape = self._code((kind, tuple(child.shape for child in children)))
        size = sum(child.size for child in children)
        return GroupDraft(kind, title, children, size=size, shape=shape)

    def _code(self, key: object) -> int:
        return self._codes.setdefault(key, len(self._codes))

    def work_title(self, items: list[GroupDraft]) -> str:
        """What a run is of: the groups that it is made of, or what it does most, by operator or
        kernel."""
        inner = [item for item in items if item.kind is FoldKind.MODULE]
        if 2 * sum(item.size for item in inner) > sum(item.size for item in items):
            titles = list(dict.fromkeys(item.title for item in inner))
            span = _span_title(titles[0], titles[-1])
            if span != titles[0]:
                return span
            return ", ".join(titles[:_MOST_NAMED]) + (", …" if titles[_MOST_NAMED:] else "")
        names: Counter[str] = Counter()
        pending = list(items)
        while pending:
            item = pending.pop()
            pending += item.children
            if item.node >= 0:
                row = self.rows[item.node]
                names[row.origin.op or short_name(row.node.label)] += 1
        (name, _), *others = names.most_common()
        return f"{name} and others" if others else name

    def _numbered(self, draft: GroupDraft, ident: str, first: int, order: LeafOrder) -> Group:
        children: list[Fold] = []
        leaf = first
        for position, child in enumerate(draft.children):
            if child.node >= 0:
                children.append(Leaf(f"n{child.node}", child.node))
                leaf += 1
            else:
                group = self._numbered(child, f"{ident}.{position}", leaf, order)
                children.append(group)
                leaf += group.count
        return Group(
            ident,
            draft.kind,
            draft.title,
            tuple(children),
            first,
            leaf - first,
            order,
            draft.repeats,
            draft.shape,
            draft.part,
            draft.note,
        )


def leaves(draft: GroupDraft) -> Iterator[int]:
    """The nodes of a group in the order of its leaves."""
    pending = [draft]
    while pending:
        item = pending.pop()
        if item.node >= 0:
            yield item.node
        else:
            pending.extend(reversed(item.children))


def neighbours(items: Sequence[Any], keys: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Neighbours with equal keys, and their key."""
    begin = 0
    for index in range(1, len(items) + 1):
        if index == len(items) or keys[index] != keys[begin]:
            yield keys[begin], list(items[begin:index])
            begin = index


def _holder_title(row: NodeRow, bodies: int) -> str:
    label = row.node.label
    return f"{label}, {bodies} bodies" if bodies > 1 else label


_NUMBERED: Final = re.compile(r"(.*)\.(\d+)(?:-(\d+))?")


def _span_title(first: str, last: str) -> str:
    """ "layers.0" and "layers.3" are "layers.0-3", as are "layers.0-1" and "layers.2-3"; titles of
    another form keep the first."""
    begin, end = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(last)
    if first == last or begin is None or end is None or begin[1] != end[1]:
        return first
    numbers = [int(text) for text in (*begin.groups()[1:], *end.groups()[1:]) if text]
    return f"{begin[1]}.{min(numbers)}-{max(numbers)}"


def _tandem(shapes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, int, int]]:
    """Blocks that repeat directly: (items covered, start, period), those that cover most first and
    of these the shortest period first. A period of one must repeat often to count."""
    tandems = []
    for period in range(1, min(_LONGEST_PERIOD, len(shapes) // 2) + 1):
        equal = shapes[:-period] == shapes[period:]
        edges = np.flatnonzero(np.diff(np.concatenate(([False], equal, [False])).astype(np.int8)))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            covered = (end - start) // period * period + period
            if covered >= 2 * period and (period > 1 or covered >= _SHORTEST_RUN):
                tandems.append((covered, start, period))
    tandems.sort(key=lambda tandem: (-tandem[0], tandem[2], tandem[1]))
    return tandems
