"""Which groups of a folded graph are open in a view: what can be read, what was asked for, and no
more boxes than a budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.layout import ALL, Shown, lay_out, shown_children
from graphviz_dash.features.graph.folding.tree import (
    FoldKind,
    Group,
    Leaf,
    ancestors,
    block_of,
    groups,
    mirrored,
)

MOST_BOXES: Final = 200
"""Boxes of a view, unfolded groups included."""

_READABLE: Final = 0.6
"""Zoom at which boxes have room for two lines of text: groups are unfolded without being asked
while the whole still fits the canvas at this zoom."""

_SMALL: Final = 120
"""A graph of at most so many nodes is unfolded whole, if the names in it can be read."""

_LEAST_READABLE: Final = 0.45
"""Zoom at which boxes have room for one line of nine pixels."""


USUAL_WIDTH: Final = 800.0
"""Width of a canvas in pixels, where that is not known."""


class Unfolding(Struct, frozen=True):
    """Which groups are open in a view."""

    ids: frozenset[str]
    """Of the open groups, the root among them."""
    blocks: dict[str, int]
    """By id of a repeat the number of the block that stands for all, or ALL; the first where none
    is given."""
    full: bool
    """Whether a group had to stay folded for want of room."""


def unfolding(
    graph: FoldedGraph,
    ratio: float,
    expanded: Iterable[str] | None,
    focus: int | None,
    first: str | None,
    shown: Shown,
    width: float,
) -> Unfolding:
    """The groups that a view has open; what is asked of it: :func:`view.dag_view`."""
    blocks = {ident: block for ident, block in shown.items() if ident in graph.groups}
    must = {graph.root.id}
    if focus is not None:
        must |= _to_be_seen(graph, graph.root.order.at[focus], blocks)
    if first in graph.groups:
        must |= _to_be_seen(graph, graph.groups[first].first, blocks, first) | {first}
    wanted = (
        _automatic(graph.root, ratio, width)
        if expanded is None
        else mirrored(graph.groups, set(expanded) & set(graph.groups), blocks)
    )
    kept, full = _within_budget(graph.root, wanted | must, must, blocks)
    return Unfolding(frozenset(kept), blocks, full)


def _automatic(root: Group, ratio: float, canvas: float) -> set[str]:
    """Groups to unfold without being asked: from the outside in, while all of it can be read."""
    order = [root.id]
    queue = deque((child, root) for child in root.children)
    while queue:
        group, above = queue.popleft()
        if not isinstance(group, Group) or len(order) >= MOST_BOXES:
            continue
        # Single nodes say little more unfolded than their strip does, unless the row of them
        # stands for many.
        single = group.kind is FoldKind.REPEAT and isinstance(group.blocks[0], Leaf)
        if not single and (group.kind is not FoldKind.RUN or above.kind is FoldKind.REPEAT):
            order.append(group.id)
            queue.extend((child, group) for child in shown_children(group, {}))
    if root.count <= _SMALL:
        everything = set(groups(root))
        if _zoom(root, everything, ratio, canvas) >= _LEAST_READABLE:
            return everything
    # The more is open the smaller it gets, so the last one that can still be read is found by
    # halving.
    low, high = 1, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if _zoom(root, set(order[:middle]), ratio, canvas) >= _READABLE:
            low = middle
        else:
            high = middle - 1
    return set(order[:low])


def _zoom(root: Group, opened: set[str], ratio: float, canvas: float) -> float:
    """The zoom at which the whole fits the canvas."""
    placed = lay_out(root, frozenset(opened), ratio, {})
    return min(canvas / placed.width, canvas / ratio / placed.height)


def _to_be_seen(
    graph: FoldedGraph, at: int, blocks: dict[str, int], group: str | None = None
) -> set[str]:
    """The groups to unfold so that leaf number ``at`` is seen, or ``group``, which begins there;
    repeats are set to show the block that it is in."""
    around = ancestors(graph.root, int(graph.root.order.nodes[at]))
    if group is not None:
        around = tuple(ident for ident in around if group.startswith(f"{ident}."))
    for ident in around:
        repeat = graph.groups[ident]
        if repeat.kind is FoldKind.REPEAT and blocks.get(ident) != ALL:
            blocks[ident] = block_of(repeat, at)
    return set(around)


def _within_budget(
    root: Group, wanted: set[str], must: set[str], blocks: Shown
) -> tuple[set[str], bool]:
    """Of ``wanted`` what the budget allows, those that ``must`` be open first, the outer before the
    inner; and whether something had to stay folded."""
    kept: set[str] = set()
    shown = 0
    full = False
    queue = deque([root])
    later: deque[Group] = deque()
    while queue or later:
        group = queue.popleft() if queue else later.popleft()
        children = shown_children(group, blocks)
        if group.id not in must and shown + len(children) > MOST_BOXES:
            full = True
            continue
        shown += len(children)
        kept.add(group.id)
        for child in children:
            if isinstance(child, Group) and child.id in wanted:
                (queue if child.id in must else later).append(child)
    return kept, full
