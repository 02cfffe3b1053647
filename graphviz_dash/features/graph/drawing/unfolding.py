"""Selection of open groups in a view: readable, requested, and within the box budget."""

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
"""Maximum number of boxes of a view, unfolded groups included."""

_READABLE: Final = 0.6
"""Zoom at which boxes have space for two lines of text. Groups unfold automatically while the graph
fits the canvas at this zoom."""

_SMALL: Final = 120
"""Maximum number of nodes of a graph that is fully unfolded, if its names are readable."""

_LEAST_READABLE: Final = 0.45
"""Zoom at which boxes have space for one line of nine pixels."""


USUAL_WIDTH: Final = 800.0
"""Default width of a canvas in pixels."""


class Unfolding(Struct, frozen=True):
    """Open groups of a view."""

    ids: frozenset[str]
    """Ids of the open groups, including the root."""
    blocks: dict[str, int]
    """Visible block of each repeat by id, or ALL; the first by default."""
    full: bool
    """Whether a group had to stay folded for lack of space."""


def unfolding(
    graph: FoldedGraph,
    ratio: float,
    expanded: Iterable[str] | None,
    focus: int | None,
    first: str | None,
    shown: Shown,
    width: float,
) -> Unfolding:
    """Choose the open groups of a view; see :func:`view.dag_view` for the arguments."""
    blocks = {ident: block for ident, block in shown.items() if ident in graph.groups}
    required = {graph.root.id}
    if focus is not None:
        required |= _to_be_seen(graph, graph.root.order.at[focus], blocks)
    if first in graph.groups:
        required |= _to_be_seen(graph, graph.groups[first].first, blocks, first) | {first}
    wanted = (
        _automatic(graph.root, ratio, width)
        if expanded is None
        else mirrored(graph.groups, set(expanded) & set(graph.groups), blocks)
    )
    open_ids, full = _within_budget(graph.root, wanted | required, required, blocks)
    return Unfolding(frozenset(open_ids), blocks, full)


def _automatic(root: Group, ratio: float, canvas: float) -> set[str]:
    """Choose groups to unfold automatically, from the outside in while everything is readable."""
    order = [root.id]
    queue = deque((child, root) for child in root.children)
    while queue:
        group, parent = queue.popleft()
        if not isinstance(group, Group) or len(order) >= MOST_BOXES:
            continue
        # Single nodes show little more unfolded than in their strip, unless their row represents
        # many.
        single = group.kind is FoldKind.REPEAT and isinstance(group.blocks[0], Leaf)
        if not single and (group.kind is not FoldKind.RUN or parent.kind is FoldKind.REPEAT):
            order.append(group.id)
            queue.extend((child, group) for child in shown_children(group, {}))
    if root.count <= _SMALL:
        everything = set(groups(root))
        if _zoom(root, everything, ratio, canvas) >= _LEAST_READABLE:
            return everything
    # Zoom decreases with every open group, so the last readable state is found by bisection.
    low, high = 1, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if _zoom(root, set(order[:middle]), ratio, canvas) >= _READABLE:
            low = middle
        else:
            high = middle - 1
    return set(order[:low])


def _zoom(root: Group, opened: set[str], ratio: float, canvas: float) -> float:
    """Compute the zoom at which the graph fits the canvas."""
    placed = lay_out(root, frozenset(opened), ratio, {})
    return min(canvas / placed.width, canvas / ratio / placed.height)


def _to_be_seen(
    graph: FoldedGraph, at: int, blocks: dict[str, int], group: str | None = None
) -> set[str]:
    """Choose the groups to unfold so that leaf number ``at``, or ``group`` starting there, is
    visible. Repeats are set to show its block."""
    enclosing = ancestors(graph.root, int(graph.root.order.nodes[at]))
    if group is not None:
        enclosing = tuple(ident for ident in enclosing if group.startswith(f"{ident}."))
    for ident in enclosing:
        repeat = graph.groups[ident]
        if repeat.kind is FoldKind.REPEAT and blocks.get(ident) != ALL:
            blocks[ident] = block_of(repeat, at)
    return set(enclosing)


def _within_budget(
    root: Group, wanted: set[str], must: set[str], blocks: Shown
) -> tuple[set[str], bool]:
    """Choose groups of ``wanted`` within the budget, those in ``must`` first, outer before inner.
    Also return whether a group had to stay folded."""
    opened: set[str] = set()
    box_count = 0
    full = False
    queue = deque([root])
    deferred: deque[Group] = deque()
    while queue or deferred:
        group = queue.popleft() if queue else deferred.popleft()
        children = shown_children(group, blocks)
        if group.id not in must and box_count + len(children) > MOST_BOXES:
            full = True
            continue
        box_count += len(children)
        opened.add(group.id)
        for child in children:
            if isinstance(child, Group) and child.id in wanted:
                (queue if child.id in must else deferred).append(child)
    return opened, full
