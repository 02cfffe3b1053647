"""Groups of a graph by the paths of its nodes, depth by depth, with edges that lead forward.

Where the groups of one row lead to each other in a circle, the nodes of each are taken apart by how
often it is entered again: along a dependency that leads from a group that begins later to one that
began earlier the count goes up by one. Within one count edges then follow the order in which groups
begin, and from one count to the next they lead forward.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.features.graph.folding.by_order import Path


class _Level(Struct, frozen=True):
    """One depth of the tree. What is by leaf is a list with an item for each leaf."""

    until: list[int]
    """Where the group of each leaf ends."""
    name: list[int]
    """Index of the path of each leaf's group."""
    visits: dict[int, tuple[int, int]]
    """Of groups of which one row has several of a name, by their first leaf: the number of this
    one, and how many there are."""
    after: dict[int, list[list[int]]]
    """What each item leads to, of rows that are more than one item after another, by the first leaf
    of the row."""


class Levels:
    """The groups at each depth, as stretches of one order of the leaves, which is ``nodes``. At
    each depth, and so in every view, edges lead from groups to later ones."""

    def __init__(
        self, nodes: int, order: Sequence[int], paths: Sequence[Path], source: Ints, target: Ints
    ) -> None:
        """The groups of ``order``, which are nodes, of ``nodes`` in all, in the order of
        dependencies; ``paths`` are the names of the groups around each, outermost first, ``source``
        and ``target`` (edges,) the edges of all."""
        count = len(order)
        position = np.full(nodes, -1, dtype=np.int64)
        position[np.asarray(order, dtype=np.int64)] = np.arange(count)
        source, target = position[source], position[target]
        inside = (source >= 0) & (target >= 0)
        edges = (source[inside], target[inside])
        keys, self._names = _keys(paths)
        group = np.zeros(count, dtype=np.int64)
        splits = []
        for depth in range(keys.shape[1]):
            split = _Split(group, keys[:, depth], *edges)
            splits.append((split, group))
            group = split.child
        # The last numbers tell each leaf's place.
        leaf_at = group
        ordered = np.argsort(leaf_at)
        self.nodes: list[int] = np.asarray(order, dtype=np.int64)[ordered].tolist()
        self._levels = [
            _level(split, above, keys[:, depth], ordered, edges)
            for depth, (split, above) in enumerate(splits)
        ]

    def until(self, depth: int, leaf: int) -> int:
        """Where the group around ``leaf`` ends."""
        return self._levels[depth].until[leaf]

    def path(self, depth: int, leaf: int) -> Path:
        """The names of the group around ``leaf`` and of those around it."""
        return self._names[self._levels[depth].name[leaf]]

    def note(self, depth: int, leaf: int) -> str:
        """Which visit of a module the group is that begins with ``leaf``."""
        visit = self._levels[depth].visits.get(leaf)
        return "" if visit is None else f"visit {visit[0]} of {visit[1]}"

    def after(self, depth: int, begin: int) -> list[list[int]] | None:
        """What each item of the row that begins with a leaf leads to; None in a plain row."""
        if depth == len(self._levels):
            return None
        return self._levels[depth].after.get(begin)


def _keys(paths: Sequence[Path]) -> tuple[Ints, list[Path]]:
    """A number for each node's group at each depth, shape (nodes, depths), and the groups' paths.
    Below the end of its path a node is a group by itself, whose number has no path."""
    numbers: dict[Path, int] = {}
    depth = 1 + max(map(len, paths))
    rows: dict[Path, list[int]] = {}
    for path in dict.fromkeys(paths):
        row = [numbers.setdefault(path[: at + 1], len(numbers)) for at in range(len(path))]
        rows[path] = row + [-1] * (depth - len(path))
    keys = np.array([rows[path] for path in paths], dtype=np.int64)
    own = len(numbers) + np.arange(len(paths))
    return np.where(keys < 0, own[:, None], keys), list(numbers)


class _Split:
    """Groups of nodes taken apart into their children. ``child`` (nodes,) numbers these, those of
    one group together and in an order in which edges lead forward; ``visit`` (nodes,) is how often
    the child's module was shown before."""

    def __init__(self, group: Ints, key: Ints, source: Ints, target: Ints) -> None:
        self.visit = np.zeros(len(group), dtype=np.int64)
        number, first, of = _numbered(group, key, self.visit)
        within = (group[source] == group[target]) & (number[source] != number[target])
        backward = within & (first[number[source]] > first[number[target]])
        rank = first
        if backward.any():
            doubtful = np.zeros(len(group), dtype=np.bool_)
            doubtful[group[source[backward]]] = True
            near = (group[source] == group[target]) & doubtful[group[source]]
            source, target = source[near], target[near]
            _enter_again(number, first, source, target, self.visit)
            number, first, of = _numbered(group, key, self.visit)
            rank = first.copy()
            children = np.flatnonzero(doubtful[of])
            ordered = _forward(children, number[source], number[target], first)
            rank[ordered] = np.arange(len(ordered))
        placed = np.empty(len(rank), dtype=np.int64)
        placed[np.lexsort((rank, of))] = np.arange(len(rank))
        self.child = placed[number]


def _numbered(group: Ints, key: Ints, visit: Ints) -> tuple[Ints, Ints, Ints]:
    """The number (nodes,) of each node's child, and of each child its first node and its group."""
    order = np.lexsort((visit, key, group))
    fresh = np.ones(len(order), dtype=np.bool_)
    before, after = order[:-1], order[1:]
    fresh[1:] = (
        (group[before] != group[after])
        | (key[before] != key[after])
        | (visit[before] != visit[after])
    )
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(fresh) - 1
    # The sort is stable: the first of a child is its first node.
    first = order[fresh]
    return number, first, group[first]


def _enter_again(number: Ints, first: Ints, source: Ints, target: Ints, visit: Ints) -> None:
    """Counts for each node how often its child is entered again, where children lead to each other
    in a circle: on the way there the order in which they first begin is broken so often."""
    circle = _circles(number[source].tolist(), number[target].tolist())
    begun = first.tolist()
    by = np.argsort(source, kind="stable")
    ends = zip(source[by].tolist(), target[by].tolist(), strict=True)
    for (begin, end), child, next_child in zip(
        ends, number[source[by]].tolist(), number[target[by]].tolist(), strict=True
    ):
        if child in circle and circle.get(next_child) == circle[child]:
            visit[end] = max(visit[end], visit[begin] + (begun[child] > begun[next_child]))


def _circles(source: list[int], target: list[int]) -> dict[int, int]:
    """Of the places on circles a number for each, the same for those that reach each other: the
    strongly connected components of more than one, by Kosaraju's way."""
    after: dict[int, list[int]] = {}
    before: dict[int, list[int]] = {}
    for begin, end in zip(source, target, strict=True):
        after.setdefault(begin, []).append(end)
        before.setdefault(end, []).append(begin)
    seen: set[int] = set()
    order = [member for start in after for member in _reached(start, after, seen)]
    seen = set()
    circles: dict[int, int] = {}
    for start in reversed(order):
        members = _reached(start, before, seen)
        if len(members) > 1:
            circles.update(dict.fromkeys(members, start))
    return circles


def _reached(start: int, near: Mapping[int, list[int]], seen: set[int]) -> list[int]:
    """What is reached from ``start`` without what was ``seen`` before, each after what it leads
    to."""
    if start in seen:
        return []
    seen.add(start)
    path = [(start, iter(near.get(start, ())))]
    done = []
    while path:
        node, neighbours = path[-1]
        unseen = next((neighbour for neighbour in neighbours if neighbour not in seen), None)
        if unseen is None:
            path.pop()
            done.append(node)
        else:
            seen.add(unseen)
            path.append((unseen, iter(near.get(unseen, ()))))
    return done


def _forward(children: Ints, source: Ints, target: Ints, first: Ints) -> list[int]:
    """``children`` in an order in which all edges lead forward, the first to begin first."""
    after: dict[int, set[int]] = {child: set() for child in children.tolist()}
    for begin, end in zip(source.tolist(), target.tolist(), strict=True):
        if begin != end:
            after[begin].add(end)
    degree = Counter(end for reached in after.values() for end in reached)
    ready = [(int(first[child]), child) for child in after if not degree[child]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, child = heapq.heappop(ready)
        order.append(child)
        for end in after[child]:
            degree[end] -= 1
            if not degree[end]:
                heapq.heappush(ready, (int(first[end]), end))
    return order


def _level(
    split: _Split, above: Ints, keys: Ints, ordered: Ints, edges: tuple[Ints, Ints]
) -> _Level:
    """The level of ``split``; ``ordered`` are the nodes by leaf, ``above`` their groups before."""
    child, group = split.child[ordered], above[ordered]
    count = len(child)
    begins = np.flatnonzero(np.append(True, child[1:] != child[:-1]))
    ends = np.append(begins[1:], count)
    until = np.repeat(ends, ends - begins)
    name = keys[ordered]
    return _Level(
        until.tolist(),
        name.tolist(),
        _visits(begins, group, name, split.visit[ordered]),
        _rows_apart(begins, child, group, split.child, above, edges),
    )


def _visits(begins: Ints, group: Ints, name: Ints, visit: Ints) -> dict[int, tuple[int, int]]:
    """The groups that are one of several of a name in one row: the number of each, and of all."""
    again = begins[visit[begins] > 0]
    if not len(again):
        return {}
    wanted = set(zip(group[again].tolist(), name[again].tolist(), strict=True))
    rows: dict[tuple[int, int], list[int]] = {}
    for begin, key in zip(
        begins.tolist(),
        zip(group[begins].tolist(), name[begins].tolist(), strict=True),
        strict=True,
    ):
        if key in wanted:
            rows.setdefault(key, []).append(begin)
    return {
        begin: (number + 1, len(begins_of_name))
        for begins_of_name in rows.values()
        for number, begin in enumerate(begins_of_name)
    }


def _rows_apart(
    begins: Ints, child: Ints, group: Ints, child_of: Ints, above: Ints, edges: tuple[Ints, Ints]
) -> dict[int, list[list[int]]]:
    """Of the rows in which an edge passes by an item what each item leads to, by the first leaf."""
    source, target = edges
    within = (above[source] == above[target]) & (child_of[source] != child_of[target])
    # Children are numbered from 0 in the order of the leaves: their places among ``begins``.
    begin, end = child_of[source[within]], child_of[target[within]]
    row = group[begins]
    size = len(begins)
    first = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    last = np.append(first[1:], size)
    row_at = np.repeat(np.arange(len(first)), last - first)
    entered, left = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    entered[end] = True
    left[begin] = True
    over = np.zeros(size + 1, dtype=np.int64)
    # Roots and sinks hang on the outside of their row.
    roots, sinks = np.flatnonzero(~entered), np.flatnonzero(~left)
    for opened, closed in (
        (begin + 1, end),
        (first[row_at[roots]], roots),
        (sinks + 1, last[row_at[sinks]]),
    ):
        np.add.at(over, opened, 1)
        np.add.at(over, closed, -1)
    passed = np.cumsum(over)[:-1] > 0
    apart = np.unique(row_at[passed])
    leads_to: dict[int, list[list[int]]] = {
        number: [[] for _ in range(int(first[number]), int(last[number]))]
        for number in apart.tolist()
    }
    pairs = np.unique(begin * size + end)
    for pair in pairs[np.isin(row_at[pairs // size], apart)].tolist():
        opened, closed = divmod(pair, size)
        number = int(row_at[opened])
        leads_to[number][opened - int(first[number])].append(closed - int(first[number]))
    return {int(begins[first[number]]): after for number, after in leads_to.items()}
