"""The tree that a graph is folded into: leaves, groups, and the order that they stand in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from graphviz_dash.analysis.lanes import Ints


class FoldKind(StrEnum):
    """What a group is."""

    GRAPH = "graph"
    MODULE = "module"
    PARALLEL = "parallel"
    BRANCH = "branch"
    TANGLE = "tangle"
    REPEAT = "repeat"
    RUN = "run"
    HOLDER = "holder"
    BODY = "body"


class Leaf(NamedTuple):
    """One node of the graph, by its place in the whole. ``id`` is unique among leaves and groups of
    the tree."""

    id: str
    node: int

    @property
    def nodes(self) -> tuple[int, ...]:
        """The node itself."""
        return (self.node,)


class Order:
    """The leaves of a tree from the first to the last: the nodes of any group are a stretch of it.

    ``nodes`` (count,) holds each leaf's node, ``at`` (count,) the leaf of each node.
    """

    def __init__(self, nodes: Iterable[int]) -> None:
        self.nodes: Ints = np.fromiter(nodes, dtype=np.int64)

    @cached_property
    def at(self) -> Ints:
        """Where each node stands."""
        places = np.empty(len(self.nodes), dtype=np.int64)
        places[self.nodes] = np.arange(len(self.nodes))
        return places


@dataclass(frozen=True)
class Group:
    """Nodes that belong together.

    ``children`` follow one another, except those of a PARALLEL group, which stand side by side,
    and of a TANGLE, whose order is given by the edges alone. Its ``count`` leaves are those of
    ``order`` from ``first`` on. A REPEAT is ``repeats`` equal blocks: its children, or what lies in
    them where they are parts of it, REPEATs again. A HOLDER has the node that holds graphs, and
    then their BODY groups, which stand side by side.
    """

    id: str
    kind: FoldKind
    title: str
    children: tuple[Fold, ...]
    first: int
    count: int
    order: Order = field(repr=False, compare=False)
    repeats: int = 0

    @property
    def nodes(self) -> tuple[int, ...]:
        """The places of all nodes inside, in topological order."""
        return tuple(self.order.nodes[self.first : self.first + self.count].tolist())


Fold: TypeAlias = Leaf | Group


def ancestors(root: Group, node: int) -> tuple[str, ...]:
    """The ids of the groups around a node, outermost first, the root included."""
    at = int(root.order.at[node])
    path = []
    group = root
    while True:
        path.append(group.id)
        inner = [child for child in group.children if isinstance(child, Group)]
        place = bisect_right(inner, at, key=lambda child: child.first) - 1
        if place < 0 or at >= inner[place].first + inner[place].count:
            return tuple(path)
        group = inner[place]


def groups(root: Group) -> dict[str, Group]:
    """All groups of the tree by id."""
    found: dict[str, Group] = {}
    pending = [root]
    while pending:
        group = pending.pop()
        found[group.id] = group
        pending.extend(child for child in group.children if isinstance(child, Group))
    return found
