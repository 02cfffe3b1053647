"""A captured graph folded into a tree that can be read: modules, parallel branches, repeats, runs.

The order of execution gives a spine: nodes that no edge passes by. Between two of them lie regions
of parallel branches. Along the spine neighbours of one phase and module form groups, as the model
is written; groups in a row that are equal or alike become one repeat; what is left and long becomes
runs. A node that holds graphs becomes a group of itself and of its bodies.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, Final, TypeAlias

import numpy as np

from graphviz_dash.analysis.fold_alike import alike, alike_blocks, runs_of
from graphviz_dash.analysis.fold_tree import Fold, FoldKind, Group, Leaf, Order
from graphviz_dash.analysis.lanes import Ints
from graphviz_dash.analysis.names import short_name
from graphviz_dash.analysis.nodes import NodeRow
from graphviz_dash.analysis.whole import WholeGraph

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


@dataclass(slots=True)
class _Draft:
    """A group before it has its id; a leaf has a node and no children."""

    kind: FoldKind
    title: str
    children: Sequence[_Draft]
    node: int = -1
    size: int = 1
    shape: int = 0
    repeats: int = 0
    part: bool = False


_Stretch: TypeAlias = tuple[tuple[str, ...], list[_Draft]]
"""Neighbours in a row that have the same phase and module path, and that path."""


def fold(whole: WholeGraph) -> Group:
    """The tree of a graph's nodes; deterministic, near-linear in nodes and edges."""
    return _Folder(whole).whole()


class _Folder:
    def __init__(self, whole: WholeGraph) -> None:
        table = whole.table
        self._rows = table.rows
        self._top = whole.top
        self._bodies = whole.bodies
        edges = table.graph.edges
        source = np.fromiter((edge.source for edge in edges), np.int64, len(edges))
        target = np.fromiter((edge.target for edge in edges), np.int64, len(edges))
        self._after = _after(len(table.rows), source, target)
        self._ascending = bool((source < target).all())
        self._paths = _module_paths(table.rows)
        self._codes: dict[object, int] = {}
        # Blocks of a repeat are rows of the same shapes, over and over.
        self._known_borders: dict[tuple[int, ...], list[list[tuple[int, int]]]] = {}

    def whole(self) -> Group:
        """The tree over all nodes."""
        order = self._topological(self._top)
        items = self._modules(self._series(order))
        root = _Draft(FoldKind.GRAPH, "graph", self._shorten(items))
        return self._numbered(root, "g", 0, Order(_leaves(root)))

    # -- the spine and its regions ---------------------------------------------------------------

    def _topological(self, nodes: Iterable[int]) -> list[int]:
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

    def _series(self, order: list[int]) -> list[_Draft]:
        """The items along the spine of a subgraph given in topological order."""
        place = {node: at for at, node in enumerate(order)}
        count = len(order)
        targets = [
            [place[after] for after in self._after[node] if after in place] for node in order
        ]
        inward = {at for reached in targets for at in reached}
        # How far the edges reach that began before a place; roots and sinks hang on the outside.
        reach = next((at for at in range(count - 1, -1, -1) if at not in inward), -1)
        items: list[_Draft] = []
        region: list[int] = []
        for at, node in enumerate(order):
            if reach <= at:
                if region:
                    items.append(self._region(region))
                    region = []
                items.append(self._leaf(node))
            else:
                region.append(node)
            if targets[at]:
                reach = max(reach, *targets[at])
            elif at < count - 1:
                reach = count
        if region:
            items.append(self._region(region))
        return items

    def _region(self, nodes: list[int]) -> _Draft:
        """What lies between two nodes of the spine: branches side by side, or a tangle."""
        parts = self._components(nodes)
        if len(parts) == 1:
            leaves = [self._leaf(node) for node in nodes]
            title = f"{len(nodes)} entangled nodes"
            return self._group(FoldKind.TANGLE, title, self._parts(leaves, self._knot))
        branches = [self._branch(part) for part in parts]
        title = f"{len(parts)} branches"
        return self._group(FoldKind.PARALLEL, title, self._parts(branches, self._beside))

    def _knot(self, items: list[_Draft], begin: int, end: int) -> _Draft:
        """Items ``begin`` to ``end`` of a tangle."""
        return self._group(FoldKind.TANGLE, self._work_title(items), items)

    def _beside(self, items: list[_Draft], begin: int, end: int) -> _Draft:
        """Branches ``begin`` to ``end`` of many."""
        return self._group(FoldKind.PARALLEL, f"branches {begin + 1} to {end}", items)

    def _branch(self, nodes: list[int]) -> _Draft:
        items = self._series(nodes)
        if len(items) == 1:
            return items[0]
        items = self._shorten(self._modules(items))
        if len(items) == 1:
            return items[0]
        return self._group(FoldKind.BRANCH, self._common_title(nodes), items)

    def _components(self, nodes: list[int]) -> list[list[int]]:
        """Weakly connected parts, each in the order given, the first to begin first."""
        near: dict[int, list[int]] = {node: [] for node in nodes}
        for node in nodes:
            for after in self._after[node]:
                if after in near:
                    near[node].append(after)
                    near[after].append(node)
        part_of: dict[int, int] = {}
        for start in nodes:
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
        for node in nodes:
            parts.setdefault(part_of[node], []).append(node)
        return list(parts.values())

    # -- groups along a row ----------------------------------------------------------------------

    def _modules(self, items: list[_Draft]) -> list[_Draft]:
        """Groups neighbours of the same phase and module, outermost module first."""
        return self._grouped(list(_runs(items, [self._path_of(item) for item in items])), 0)

    def _grouped(self, row: Sequence[_Stretch], depth: int) -> list[_Draft]:
        """``row``, alike up to ``depth``, as groups by the next part of the path."""
        if len(row) == 1:
            return self._repeats(row[0][1])
        result: list[_Draft] = []
        for key, run in _runs(row, [path[: depth + 1] for path, _ in row]):
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
                result.append(self._group(FoldKind.MODULE, title, self._shorten(inner)))
        return self._repeats(result)

    def _path_of(self, item: _Draft) -> tuple[str, ...]:
        while item.node < 0 and item.children:
            item = item.children[0]
        return self._paths[item.node]

    def _repeats(self, items: list[_Draft]) -> list[_Draft]:
        """Groups in a row that are equal, or numbered and alike, become one repeat."""
        if all(item.node >= 0 for item in items):
            return items
        result: list[_Draft] = []
        for _, alike_ones in _runs(items, self._families(items)):
            rows = [alike_ones]
            if len(alike_ones) < _FEWEST_ALIKE:
                rows = [run for _, run in _runs(alike_ones, [item.shape for item in alike_ones])]
            for run in rows:
                if len(run) < 2 or run[0].node >= 0:
                    result += run
                    continue
                result.append(self._repeat(_span_title(run[0].title, run[-1].title), run))
        return result

    def _families(self, items: list[_Draft]) -> list[int]:
        """A number for each item, the same for neighbours that belong to one repeat."""
        found = [0]
        for before, item in pairwise(items):
            found.append(found[-1] if self._akin(before, item) else found[-1] + 1)
        return found

    def _akin(self, one: _Draft, other: _Draft) -> bool:
        if one.shape == other.shape:
            return True
        if one.node >= 0 or other.node >= 0:
            return False
        first, second = _NUMBERED.fullmatch(one.title), _NUMBERED.fullmatch(other.title)
        if first is None or second is None or first[1] != second[1]:
            return False
        return alike(self._inside(one), self._inside(other))

    def _inside(self, draft: _Draft) -> Counter[int]:
        """What the nodes of a group look like."""
        return Counter(self._look(self._rows[node]) for node in _leaves(draft))

    def _shorten(self, items: list[_Draft]) -> list[_Draft]:
        """Repeated blocks, runs and even parts, until a row is short enough to be read."""
        if len(items) < _FOLD_FROM:
            return items
        items = self._blocks(items)
        if len(items) >= _FOLD_FROM:
            items = self._long_runs(items)
        return self._parts(items, lambda part, begin, end: self._run(part))

    def _parts(
        self, items: list[_Draft], group: Callable[[list[_Draft], int, int], _Draft]
    ) -> list[_Draft]:
        """A row as it is, or in even parts where it is too long; ``group`` makes a part from its
        items and where they begin and end."""
        return self._even(items, group, 0, MOST_CHILDREN)

    def _even(
        self,
        items: list[_Draft],
        group: Callable[[list[_Draft], int, int], _Draft],
        begin: int,
        most: int,
    ) -> list[_Draft]:
        if len(items) <= most:
            return items
        levels = 2
        while most**levels < len(items):
            levels += 1
        # As wide on each level, so that no level has two parts and the next one sixty.
        wide = min(most, math.ceil(len(items) ** (1 / levels)))
        size = -(-len(items) // wide)
        found = []
        for at in range(0, len(items), size):
            part = items[at : at + size]
            inside = self._even(part, group, begin + at, most)
            found.append(group(inside, begin + at, begin + at + len(part)))
        return found

    def _repeat(self, title: str, blocks: list[_Draft]) -> _Draft:
        """Blocks in a row that are equal or alike."""

        def part(items: list[_Draft], begin: int, end: int) -> _Draft:
            first, last = blocks[begin].title, blocks[end - 1].title
            span = _span_title(first, last)
            of = span if first != last else f"{title}, {begin + 1} to {end}"
            group = self._repeat_of(of, items, end - begin)
            group.part = True
            return group

        return self._repeat_of(title, self._parts(blocks, part), len(blocks))

    def _repeat_of(self, title: str, children: list[_Draft], repeats: int) -> _Draft:
        group = self._group(FoldKind.REPEAT, title, children)
        group.repeats = repeats
        return group

    def _blocks(self, items: list[_Draft]) -> list[_Draft]:
        """Folds repeats of blocks of items."""
        result: list[_Draft] = []
        at = 0
        for borders in self._borders(tuple(item.shape for item in items)):
            result += items[at : borders[0][0]]
            drafts = [self._run(items[begin:end]) for begin, end in borders]
            title = _span_title(drafts[0].title, drafts[-1].title) or self._work_title(drafts)
            result.append(self._repeat(title, drafts))
            at = borders[-1][1]
        return result + items[at:]

    def _borders(self, row: tuple[int, ...]) -> list[list[tuple[int, int]]]:
        """Where the blocks of repeats in a row of shapes begin and end: tandem repeats, those that
        cover most first; of blocks that are only alike, where that leaves a much shorter row."""
        known = self._known_borders.get(row)
        if known is not None:
            return known
        shapes = np.array(row, dtype=np.int64)
        taken = np.zeros(len(row), dtype=bool)
        chosen: list[list[tuple[int, int]]] = []
        for covered, start, period in _tandem(shapes):
            if not taken[start : start + covered].any():
                taken[start : start + covered] = True
                places = range(start, start + covered, period)
                chosen.append([(place, place + period) for place in places])
        left = len(row) - int(taken.sum()) + len(chosen)
        if left > _SHORT:
            covered, blocks = alike_blocks(shapes)
            runs = runs_of(blocks)
            if 2 * (len(row) - covered + len(runs)) <= left:
                chosen = runs
        self._known_borders[row] = sorted(chosen)
        return self._known_borders[row]

    def _long_runs(self, items: list[_Draft]) -> list[_Draft]:
        result: list[_Draft] = []
        for single, run in _runs(items, [item.node >= 0 for item in items]):
            if single and len(run) >= _SHORTEST_RUN:
                size = -(-len(run) // max(1, round(len(run) / 24)))
                parts = [run[at : at + size] for at in range(0, len(run), size)]
                result += [self._run(part) for part in parts]
            else:
                result += run
        return result

    def _run(self, items: list[_Draft]) -> _Draft:
        if len(items) == 1:
            return items[0]
        return self._group(FoldKind.RUN, self._work_title(items), items)

    # -- pieces ----------------------------------------------------------------------------------

    def _leaf(self, node: int) -> _Draft:
        """A node by itself, or with what it holds."""
        row = self._rows[node]
        shape = self._look(row)
        leaf = _Draft(FoldKind.RUN, "", (), node, 1, shape)
        if node not in self._bodies:
            return leaf
        bodies = [body for body in self._bodies[node] if body.nodes]
        if not bodies:
            return leaf
        groups = [
            self._group(
                FoldKind.BODY,
                body.title,
                self._shorten(self._modules(self._series(self._topological(body.nodes)))),
            )
            for body in bodies
        ]
        inside = self._even(groups, self._cases, 0, MOST_CHILDREN - 1)
        return self._group(FoldKind.HOLDER, _holder_title(row, len(bodies)), [leaf, *inside])

    def _look(self, row: NodeRow) -> int:
        return self._code((row.node.kind, row.node.label))

    def _cases(self, items: list[_Draft], begin: int, end: int) -> _Draft:
        """Bodies ``begin`` to ``end`` of many."""
        return self._group(FoldKind.PARALLEL, f"bodies {begin + 1} to {end}", items)

    def _group(self, kind: FoldKind, title: str, children: Sequence[_Draft]) -> _Draft:
        shape = self._code((kind, tuple(child.shape for child in children)))
        size = sum(child.size for child in children)
        return _Draft(kind, title, children, size=size, shape=shape)

    def _code(self, key: object) -> int:
        return self._codes.setdefault(key, len(self._codes))

    def _common_title(self, nodes: Sequence[int]) -> str:
        """The module that holds all the nodes, else their phase."""
        paths = [self._paths[node] for node in nodes]
        common = paths[0]
        for path in paths:
            alike = takewhile(lambda pair: pair[0] == pair[1], zip(common, path, strict=False))
            common = tuple(part for part, _ in alike)
        phase = self._rows[nodes[0]].origin.phase
        return ".".join(common[1:]) or (phase if phase != "other" else "branch")

    def _work_title(self, items: list[_Draft]) -> str:
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
                row = self._rows[item.node]
                names[row.origin.op or short_name(row.node.label)] += 1
        (name, _), *others = names.most_common()
        return f"{name} and others" if others else name

    def _numbered(self, draft: _Draft, ident: str, first: int, order: Order) -> Group:
        children: list[Fold] = []
        at = first
        for place, child in enumerate(draft.children):
            if child.node >= 0:
                children.append(Leaf(f"n{child.node}", child.node))
                at += 1
            else:
                group = self._numbered(child, f"{ident}.{place}", at, order)
                children.append(group)
                at += group.count
        return Group(
            ident,
            draft.kind,
            draft.title,
            tuple(children),
            first,
            at - first,
            order,
            draft.repeats,
            draft.shape,
            draft.part,
        )


def _leaves(draft: _Draft) -> Iterator[int]:
    """The nodes of a group in the order of its leaves."""
    pending = [draft]
    while pending:
        item = pending.pop()
        if item.node >= 0:
            yield item.node
        else:
            pending.extend(reversed(item.children))


def _runs(items: Sequence[Any], keys: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Neighbours with equal keys, and their key."""
    begin = 0
    for at in range(1, len(items) + 1):
        if at == len(items) or keys[at] != keys[begin]:
            yield keys[begin], list(items[begin:at])
            begin = at


def _after(count: int, source: Ints, target: Ints) -> list[tuple[int, ...]]:
    """What each node's edges lead to."""
    by = np.argsort(source, kind="stable")
    ordered: list[int] = target[by].tolist()
    first: list[int] = np.searchsorted(source[by], np.arange(count + 1)).tolist()
    return [tuple(ordered[first[node] : first[node + 1]]) for node in range(count)]


def _module_paths(rows: Sequence[NodeRow]) -> list[tuple[str, ...]]:
    """The path of each node, one object for all that are equal."""
    known: dict[tuple[str, str | None, bool], tuple[str, ...]] = {}
    found = []
    for row in rows:
        key = (row.origin.phase, row.origin.module, row.origin.op is None)
        path = known.get(key)
        if path is None:
            path = known[key] = _module_path(row)
        found.append(path)
    return found


def _module_path(row: NodeRow) -> tuple[str, ...]:
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
    found = []
    for period in range(1, min(_LONGEST_PERIOD, len(shapes) // 2) + 1):
        equal = shapes[:-period] == shapes[period:]
        edges = np.flatnonzero(np.diff(np.concatenate(([False], equal, [False])).astype(np.int8)))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            covered = (end - start) // period * period + period
            if covered >= 2 * period and (period > 1 or covered >= _SHORTEST_RUN):
                found.append((covered, start, period))
    found.sort(key=lambda one: (-one[0], one[2], one[1]))
    return found
