"""Grouping of nodes by path, depth by depth, with forward edges only.

Groups in a cycle are split by visit; the count increases along each edge to an earlier-starting
group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.topology import sort_topologically
from graphviz_dash.features.graph.folding.by_order import Path


class _Level(Struct, frozen=True):
    """One depth of the tree, by leaf."""

    group_end: list[int]
    name: list[int]
    """Path index of each leaf's group."""
    visits: dict[int, tuple[int, int]]
    """Visit number and count of groups that occur several times in a row, by first leaf."""
    successors: dict[int, list[list[int]]]
    """Successors of the items of non-sequential rows, by first leaf."""


class Levels:
    """Groups at each depth, as ranges of one leaf order (``nodes``).

    Edges lead to later groups at each depth and in every view.
    """

    def __init__(
        self, nodes: int, order: Sequence[int], paths: Sequence[Path], source: Ints, target: Ints
    ) -> None:
        """Build the groups of ``order``, a topological order.

        ``paths`` are each node's groups, outermost first. ``source`` and ``target`` (edges,) cover
        all nodes.
        """
        count = len(order)
        position = np.full(nodes, -1, dtype=np.int64)
        position[np.asarray(order, dtype=np.int64)] = np.arange(count)
        source, target = position[source], position[target]
        is_internal = (source >= 0) & (target >= 0)
        edges = (source[is_internal], target[is_internal])
        keys, self._names = _number_groups(paths)
        group = np.zeros(count, dtype=np.int64)
        splits = []
        for depth in range(keys.shape[1]):
            split = _Split(group, keys[:, depth], *edges)
            splits.append((split, group))
            group = split.child
        # The last child numbers are the leaf positions.
        leaf_at = group
        ordered = np.argsort(leaf_at)
        self.nodes: list[int] = np.asarray(order, dtype=np.int64)[ordered].tolist()
        self._levels = [
            _build_level(split, above, keys[:, depth], ordered, edges)
            for depth, (split, above) in enumerate(splits)
        ]

    def find_group_end(self, depth: int, leaf: int) -> int:
        """Return the end of the group around ``leaf``."""
        return self._levels[depth].group_end[leaf]

    def get_path(self, depth: int, leaf: int) -> Path:
        """Return the path of the group around ``leaf``."""
        return self._names[self._levels[depth].name[leaf]]

    def describe_visit(self, depth: int, leaf: int) -> str:
        """Describe the visit of the group that starts with ``leaf``."""
        visit = self._levels[depth].visits.get(leaf)
        return "" if visit is None else f"visit {visit[0]} of {visit[1]}"

    def get_successors(self, depth: int, begin: int) -> list[list[int]] | None:
        """Return the successors of each item of the row that starts with a leaf; None for a
        sequence."""
        if depth == len(self._levels):
            return None
        return self._levels[depth].successors.get(begin)


def _number_groups(paths: Sequence[Path]) -> tuple[Ints, list[Path]]:
    """Number each node's group at each depth, shape (nodes, depths); list the paths."""
    numbers: dict[Path, int] = {}
    depth = 1 + max(map(len, paths))
    rows: dict[Path, list[int]] = {}
    for path in dict.fromkeys(paths):
        row = [numbers.setdefault(path[: index + 1], len(numbers)) for index in range(len(path))]
        rows[path] = row + [-1] * (depth - len(path))
    keys = np.array([rows[path] for path in paths], dtype=np.int64)
    node_numbers = len(numbers) + np.arange(len(paths))
    return np.where(keys < 0, node_numbers[:, None], keys), list(numbers)


class _Split:
    """Split of groups into their children.

    ``child`` (nodes,) numbers them topologically; ``visit`` (nodes,) counts earlier visits of the
    module.
    """

    def __init__(self, group: Ints, key: Ints, source: Ints, target: Ints) -> None:
        self.visit = np.zeros(len(group), dtype=np.int64)
        number, first, group_of = _number_children(group, key, self.visit)
        is_within = (group[source] == group[target]) & (number[source] != number[target])
        backward = is_within & (first[number[source]] > first[number[target]])
        rank = first
        if backward.any():
            is_cyclic = np.zeros(len(group), dtype=np.bool_)
            is_cyclic[group[source[backward]]] = True
            is_near = (group[source] == group[target]) & is_cyclic[group[source]]
            source, target = source[is_near], target[is_near]
            _count_visits(number, first, source, target, self.visit)
            number, first, group_of = _number_children(group, key, self.visit)
            rank = first.copy()
            # Children are represented by their first nodes.
            successors: dict[int, set[int]] = {
                start: set() for start in first[is_cyclic[group_of]].tolist()
            }
            edges = zip(first[number[source]].tolist(), first[number[target]].tolist(), strict=True)
            for begin, end in edges:
                if begin != end:
                    successors[begin].add(end)
            ordered = sort_topologically(successors, successors)
            rank[number[ordered]] = np.arange(len(ordered))
        positions = np.empty(len(rank), dtype=np.int64)
        positions[np.lexsort((rank, group_of))] = np.arange(len(rank))
        self.child = positions[number]


def _number_children(group: Ints, key: Ints, visit: Ints) -> tuple[Ints, Ints, Ints]:
    """Number each node's child (nodes,); find each child's first node and group."""
    order = np.lexsort((visit, key, group))
    is_new = np.ones(len(order), dtype=np.bool_)
    previous, following = order[:-1], order[1:]
    is_new[1:] = (
        (group[previous] != group[following])
        | (key[previous] != key[following])
        | (visit[previous] != visit[following])
    )
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(is_new) - 1
    # The sort is stable, so the first entry of a child is its first node.
    first = order[is_new]
    return number, first, group[first]


def _count_visits(number: Ints, first: Ints, source: Ints, target: Ints, visit: Ints) -> None:
    circle = _find_cycles(number[source].tolist(), number[target].tolist())
    starts = first.tolist()
    edge_order = np.argsort(source, kind="stable")
    ends = zip(source[edge_order].tolist(), target[edge_order].tolist(), strict=True)
    for (begin, end), child, next_child in zip(
        ends, number[source[edge_order]].tolist(), number[target[edge_order]].tolist(), strict=True
    ):
        if child in circle and circle.get(next_child) == circle[child]:
            visit[end] = max(visit[end], visit[begin] + (starts[child] > starts[next_child]))


def _find_cycles(source: list[int], target: list[int]) -> dict[int, int]:
    """Find strongly connected components of several places, by Kosaraju's algorithm.

    Maps each place to a number that its component shares.
    """
    successors: dict[int, list[int]] = {}
    predecessors: dict[int, list[int]] = {}
    for begin, end in zip(source, target, strict=True):
        successors.setdefault(begin, []).append(end)
        predecessors.setdefault(end, []).append(begin)
    visited: set[int] = set()
    order = [
        member for start in successors for member in _list_reachable(start, successors, visited)
    ]
    visited = set()
    circles: dict[int, int] = {}
    for start in reversed(order):
        members = _list_reachable(start, predecessors, visited)
        if len(members) > 1:
            circles.update(dict.fromkeys(members, start))
    return circles


def _list_reachable(start: int, adjacent: Mapping[int, list[int]], visited: set[int]) -> list[int]:
    """List places reachable from ``start``, excluding ``visited``, in post-order."""
    if start in visited:
        return []
    visited.add(start)
    path = [(start, iter(adjacent.get(start, ())))]
    finished = []
    while path:
        node, neighbours = path[-1]
        unseen = next((neighbour for neighbour in neighbours if neighbour not in visited), None)
        if unseen is None:
            path.pop()
            finished.append(node)
        else:
            visited.add(unseen)
            path.append((unseen, iter(adjacent.get(unseen, ()))))
    return finished


def _build_level(
    split: _Split, parents: Ints, keys: Ints, ordered: Ints, edges: tuple[Ints, Ints]
) -> _Level:
    """Build the level of ``split``; ``ordered`` lists nodes by leaf, ``parents`` their parent
    groups."""
    child, group = split.child[ordered], parents[ordered]
    count = len(child)
    begins = np.flatnonzero(np.append(True, child[1:] != child[:-1]))
    ends = np.append(begins[1:], count)
    until = np.repeat(ends, ends - begins)
    name = keys[ordered]
    return _Level(
        until.tolist(),
        name.tolist(),
        _find_visits(begins, group, name, split.visit[ordered]),
        _find_bypassed_rows(begins, child, group, split.child, parents, edges),
    )


def _find_visits(begins: Ints, group: Ints, name: Ints, visit: Ints) -> dict[int, tuple[int, int]]:
    """Find visit number and count of groups that occur several times in a row."""
    revisited = begins[visit[begins] > 0]
    if not len(revisited):
        return {}
    revisited_keys = set(zip(group[revisited].tolist(), name[revisited].tolist(), strict=True))
    rows: dict[tuple[int, int], list[int]] = {}
    for begin, key in zip(
        begins.tolist(),
        zip(group[begins].tolist(), name[begins].tolist(), strict=True),
        strict=True,
    ):
        if key in revisited_keys:
            rows.setdefault(key, []).append(begin)
    return {
        begin: (number + 1, len(begins_of_name))
        for begins_of_name in rows.values()
        for number, begin in enumerate(begins_of_name)
    }


def _find_bypassed_rows(
    begins: Ints, child: Ints, group: Ints, child_of: Ints, parents: Ints, edges: tuple[Ints, Ints]
) -> dict[int, list[list[int]]]:
    """List the successors of each item of rows with a bypassing edge, by first leaf."""
    source, target = edges
    is_within = (parents[source] == parents[target]) & (child_of[source] != child_of[target])
    # Children are numbered from 0 in leaf order: their positions in ``begins``.
    begin, end = child_of[source[is_within]], child_of[target[is_within]]
    row = group[begins]
    size = len(begins)
    first = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    last = np.append(first[1:], size)
    row_at = np.repeat(np.arange(len(first)), last - first)
    has_predecessor, has_successor = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    has_predecessor[end] = True
    has_successor[begin] = True
    open_edges = np.zeros(size + 1, dtype=np.int64)
    # Roots and sinks count as connected to the outside of their row.
    roots, sinks = np.flatnonzero(~has_predecessor), np.flatnonzero(~has_successor)
    for source_item, target_item in (
        (begin + 1, end),
        (first[row_at[roots]], roots),
        (sinks + 1, last[row_at[sinks]]),
    ):
        np.add.at(open_edges, source_item, 1)
        np.add.at(open_edges, target_item, -1)
    is_bypassed = np.cumsum(open_edges)[:-1] > 0
    bypassed_rows = np.unique(row_at[is_bypassed])
    leads_to: dict[int, list[list[int]]] = {
        number: [[] for _ in range(int(first[number]), int(last[number]))]
        for number in bypassed_rows.tolist()
    }
    pairs = np.unique(begin * size + end)
    for pair in pairs[np.isin(row_at[pairs // size], bypassed_rows)].tolist():
        source_item, target_item = divmod(pair, size)
        number = int(row_at[source_item])
        leads_to[number][source_item - int(first[number])].append(target_item - int(first[number]))
    return {int(begins[first[number]]): following for number, following in leads_to.items()}
