"""Tree of a folded graph: leaves, groups, and leaf order."""

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
    """Kind of a group."""

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
    """One node of the graph, by its index.

    ``id`` is unique among leaves and groups of the tree.
    """

    id: str
    node: int

    @property
    def nodes(self) -> tuple[int, ...]:
        """Indices of the nodes: the node itself."""
        return (self.node,)


class LeafOrder:
    """Leaves of a tree in order; the nodes of any group are a contiguous range."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self.nodes: Ints = np.fromiter(nodes, dtype=np.int64)

    @cached_property
    def positions(self) -> Ints:
        """Leaf position of each node."""
        positions = np.empty(len(self.nodes), dtype=np.int64)
        positions[self.nodes] = np.arange(len(self.nodes))
        return positions


@dataclass(frozen=True)
class FoldGroup:
    """A group of nodes."""

    id: str
    """Unique id among leaves and groups of the tree."""
    kind: FoldKind
    title: str
    children: tuple[FoldItem, ...]
    """In sequence; those of PARALLEL groups and BODY groups of a HOLDER are side by side.

    Edges alone order the children of a TANGLE.
    """
    first: int
    """First leaf in ``order``."""
    count: int
    order: LeafOrder = field(repr=False, compare=False)
    """Leaves of the whole tree."""
    repeats: int = 0
    """Equal or similar blocks of a REPEAT, including those of parts; 0 otherwise."""
    shape: int = 0
    """Groups of one shape have equal nodes and structure."""
    is_part: bool = False
    """Holds some of the blocks of the enclosing REPEAT."""
    note: str = ""
    """Note next to the title; may be empty."""

    @cached_property
    def blocks(self) -> tuple[FoldItem, ...]:
        """Blocks of a REPEAT, including those of its parts; empty for other groups."""
        if self.kind is not FoldKind.REPEAT:
            return ()
        blocks: list[FoldItem] = []
        for child in self.children:
            blocks += child.blocks if isinstance(child, FoldGroup) and child.is_part else (child,)
        return tuple(blocks)

    @cached_property
    def block_starts(self) -> tuple[int, ...]:
        """Number of the first leaf of each block."""
        sizes = (child.count if isinstance(child, FoldGroup) else 1 for child in self.blocks)
        return tuple(accumulate(sizes, initial=self.first))[:-1]

    @property
    def nodes(self) -> tuple[int, ...]:
        """Indices of all nodes, in topological order."""
        return tuple(self.order.nodes[self.first : self.first + self.count].tolist())


FoldItem: TypeAlias = Leaf | FoldGroup


def list_ancestors(root: FoldGroup, node: int) -> tuple[str, ...]:
    """List the ids of the groups around a node, outermost first."""
    leaf = int(root.order.positions[node])
    path = []
    group: FoldItem | None = root
    while isinstance(group, FoldGroup):
        path.append(group.id)
        group = _find_group_at(group.children, leaf)
    return tuple(path)


def find_block(repeat: FoldGroup, leaf: int) -> int:
    """Find the block of a REPEAT that contains a leaf."""
    starts = repeat.block_starts
    return bisect_right(starts, leaf) - 1


def _find_group_at(children: Sequence[FoldItem], leaf: int) -> FoldGroup | None:
    inner = [child for child in children if isinstance(child, FoldGroup)]
    index = bisect_right(inner, leaf, key=lambda child: child.first) - 1
    if index < 0 or leaf >= inner[index].first + inner[index].count:
        return None
    return inner[index]


def index_groups(root: FoldGroup) -> dict[str, FoldGroup]:
    """Index all groups of the tree by id."""
    by_id: dict[str, FoldGroup] = {}
    pending = [root]
    while pending:
        group = pending.pop()
        by_id[group.id] = group
        pending.extend(child for child in group.children if isinstance(child, FoldGroup))
    return by_id


def mirror_ids(
    by_id: Mapping[str, FoldGroup], group_ids: Iterable[str], visible: Mapping[str, int]
) -> set[str]:
    """Translate group ids into the shown block of each REPEAT; ids that it lacks are omitted.

    ``visible`` is the block by REPEAT (default 0; -1 for all).
    """
    ids = set()
    for ident in group_ids:
        current: str | None = ident
        depth, in_parts = 1, False
        while current is not None and depth < current.count(".") + 1:
            outer = by_id[".".join(current.split(".")[:depth])]
            # If one block represents all, the parts of the repeat are hidden.
            in_parts = in_parts and outer.is_part
            if outer.kind is FoldKind.REPEAT and visible.get(outer.id, 0) >= 0 and not in_parts:
                current = _translate_id(outer, by_id[current], visible.get(outer.id, 0), by_id)
                in_parts = True
            depth += 1
        if current is not None:
            ids.add(current)
    return ids


def _translate_id(
    repeat: FoldGroup, group: FoldGroup, block: int, by_id: Mapping[str, FoldGroup]
) -> str | None:
    blocks = repeat.blocks
    source_block, target_block = (
        blocks[find_block(repeat, group.first)],
        blocks[min(block, len(blocks) - 1)],
    )
    if not (group.id == source_block.id or group.id.startswith(f"{source_block.id}.")):
        return group.id  # A part of the repeat.
    ident = f"{target_block.id}{group.id.removeprefix(source_block.id)}"
    return ident if ident in by_id else None
