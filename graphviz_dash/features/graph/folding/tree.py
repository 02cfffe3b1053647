"""The tree that a graph is folded into: leaves, groups, and the order that they stand in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np

from graphviz_dash.analysis.arrays import Ints


class FoldKind(StrEnum):
    """What a group is."""

    GRAPH = "graph"
    MODULE = "module"
    OUTSIDE = "outside"
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


class LeafOrder:
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
    """Nodes that belong together."""

    id: str
    """Unique among leaves and groups of the tree."""
    kind: FoldKind
    """What the group is."""
    title: str
    """What it is called."""
    children: tuple[Fold, ...]
    """They follow one another, except those of a PARALLEL group, which stand side by side, and of a
    TANGLE, whose order is given by the edges alone. A HOLDER has the node that holds graphs, and
    then their BODY groups, which stand side by side."""
    first: int
    """The first of its leaves in ``order``."""
    count: int
    """Leaves from there on."""
    order: LeafOrder = field(repr=False, compare=False)
    """The leaves of the whole tree."""
    repeats: int = 0
    """Blocks of a REPEAT, which are equal or alike: its children, or what lies in them where they
    are parts of it, REPEATs again. 0 for other groups."""
    shape: int = 0
    """Number of its look: groups of one shape hold equal nodes, put together alike."""
    part: bool = False
    """Whether it is some of the blocks of the REPEAT around it."""
    note: str = ""
    """What is said of it beside its title; empty where there is nothing to say."""

    @cached_property
    def blocks(self) -> tuple[Fold, ...]:
        """Of a REPEAT the blocks, those of its parts included; none of other groups."""
        if self.kind is not FoldKind.REPEAT:
            return ()
        blocks: list[Fold] = []
        for child in self.children:
            blocks += child.blocks if isinstance(child, Group) and child.part else (child,)
        return tuple(blocks)

    @cached_property
    def block_starts(self) -> tuple[int, ...]:
        """The number of the first leaf of each block."""
        sizes = (child.count if isinstance(child, Group) else 1 for child in self.blocks)
        return tuple(accumulate(sizes, initial=self.first))[:-1]

    @property
    def nodes(self) -> tuple[int, ...]:
        """The places of all nodes inside, in topological order."""
        return tuple(self.order.nodes[self.first : self.first + self.count].tolist())


Fold: TypeAlias = Leaf | Group


def ancestors(root: Group, node: int) -> tuple[str, ...]:
    """The ids of the groups around a node, outermost first, the root included."""
    leaf = int(root.order.at[node])
    path = []
    group: Fold | None = root
    while isinstance(group, Group):
        path.append(group.id)
        group = _inner_at(group.children, leaf)
    return tuple(path)


def block_of(repeat: Group, leaf: int) -> int:
    """Which block of a REPEAT has the leaf of that number, counted over the whole tree."""
    starts = repeat.block_starts
    return bisect_right(starts, leaf) - 1


def _inner_at(children: Sequence[Fold], leaf: int) -> Group | None:
    """The group among ``children`` that holds the leaf of that number."""
    inner = [child for child in children if isinstance(child, Group)]
    index = bisect_right(inner, leaf, key=lambda child: child.first) - 1
    if index < 0 or leaf >= inner[index].first + inner[index].count:
        return None
    return inner[index]


def groups(root: Group) -> dict[str, Group]:
    """All groups of the tree by id."""
    by_id: dict[str, Group] = {}
    pending = [root]
    while pending:
        group = pending.pop()
        by_id[group.id] = group
        pending.extend(child for child in group.children if isinstance(child, Group))
    return by_id


def mirrored(
    by_id: Mapping[str, Group], wanted: Iterable[str], shown: Mapping[str, int]
) -> set[str]:
    """Ids of groups, those inside a block of a REPEAT as they are called in the block that is shown
    for all (the first unless ``shown`` tells; -1: all are); those that it lacks are left out."""
    ids = set()
    for ident in wanted:
        current: str | None = ident
        depth, of_parts = 1, False
        while current is not None and depth < current.count(".") + 1:
            outer = by_id[".".join(current.split(".")[:depth])]
            # Where one block stands for all, the parts of the repeat are not seen.
            of_parts = of_parts and outer.part
            if outer.kind is FoldKind.REPEAT and shown.get(outer.id, 0) >= 0 and not of_parts:
                current = _in_block(outer, by_id[current], shown.get(outer.id, 0), by_id)
                of_parts = True
            depth += 1
        if current is not None:
            ids.add(current)
    return ids


def _in_block(repeat: Group, group: Group, block: int, by_id: Mapping[str, Group]) -> str | None:
    """The id, in another block of ``repeat``, of what ``group`` is in its own."""
    blocks = repeat.blocks
    own, other = blocks[block_of(repeat, group.first)], blocks[min(block, len(blocks) - 1)]
    if not (group.id == own.id or group.id.startswith(f"{own.id}.")):
        return group.id  # A part of the repeat.
    ident = f"{other.id}{group.id.removeprefix(own.id)}"
    return ident if ident in by_id else None
