"""Selection of open groups in a view: readable, requested, and within the box budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.layout import (
    ALL_BLOCKS,
    VisibleBlocks,
    get_visible_children,
    lay_out,
)
from graphviz_dash.features.graph.folding.tree import (
    FoldGroup,
    FoldKind,
    Leaf,
    find_block,
    index_groups,
    list_ancestors,
    mirror_ids,
)

MAX_BOXES: Final = 200
"""Boxes of a view, unfolded groups included."""

_READABLE_ZOOM: Final = 0.6
"""Zoom with space for two lines of text per box; groups unfold automatically while the graph fits
the canvas at this zoom."""

_SMALL_GRAPH_NODES: Final = 120
"""Nodes of a graph that is fully unfolded if its names are readable."""

_MIN_READABLE_ZOOM: Final = 0.45
"""Zoom with space for one line of nine pixels."""


DEFAULT_WIDTH: Final = 800.0
"""Width of a canvas in pixels."""


class Unfolding(Struct, frozen=True):
    """Open groups of a view."""

    ids: frozenset[str]
    """Ids of the open groups, including the root."""
    blocks: dict[str, int]
    """Visible block of each repeat by id, or ALL; the first by default."""
    full: bool
    """A group had to stay folded for lack of space."""


def choose_unfolding(
    graph: FoldedGraph,
    ratio: float,
    expanded: Iterable[str] | None,
    focus: int | None,
    first: str | None,
    visible: VisibleBlocks,
    width: float,
) -> Unfolding:
    """Choose the open groups; arguments as for :func:`.view.build_dag_view`."""
    blocks = {ident: block for ident, block in visible.items() if ident in graph.groups}
    required = {graph.root.id}
    if focus is not None:
        required |= _reveal_leaf(graph, graph.root.order.positions[focus], blocks)
    if first in graph.groups:
        required |= _reveal_leaf(graph, graph.groups[first].first, blocks, first) | {first}
    targets = (
        _choose_readable_groups(graph.root, ratio, width)
        if expanded is None
        else mirror_ids(graph.groups, set(expanded) & set(graph.groups), blocks)
    )
    open_ids, full = _apply_budget(graph.root, targets | required, required, blocks)
    return Unfolding(frozenset(open_ids), blocks, full)


def _choose_readable_groups(root: FoldGroup, ratio: float, canvas: float) -> set[str]:
    """Unfold groups from the outside in while everything is readable."""
    order = [root.id]
    queue = deque((child, root) for child in root.children)
    while queue:
        group, parent = queue.popleft()
        if not isinstance(group, FoldGroup) or len(order) >= MAX_BOXES:
            continue
        # Single nodes show little more unfolded than in their strip, unless their row represents
        # many.
        single = group.kind is FoldKind.REPEAT and isinstance(group.blocks[0], Leaf)
        if not single and (group.kind is not FoldKind.RUN or parent.kind is FoldKind.REPEAT):
            order.append(group.id)
            queue.extend((child, group) for child in get_visible_children(group, {}))
    if root.count <= _SMALL_GRAPH_NODES:
        everything = set(index_groups(root))
        if _compute_zoom(root, everything, ratio, canvas) >= _MIN_READABLE_ZOOM:
            return everything
    # Zoom decreases with every open group, so the last readable state is found by bisection.
    low, high = 1, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if _compute_zoom(root, set(order[:middle]), ratio, canvas) >= _READABLE_ZOOM:
            low = middle
        else:
            high = middle - 1
    return set(order[:low])


def _compute_zoom(root: FoldGroup, opened: set[str], ratio: float, canvas: float) -> float:
    box = lay_out(root, frozenset(opened), ratio, {})
    return min(canvas / box.width, canvas / ratio / box.height)


def _reveal_leaf(
    graph: FoldedGraph, at: int, blocks: dict[str, int], group: str | None = None
) -> set[str]:
    """Choose groups to unfold so that leaf ``at``, or ``group`` starting there, is visible; repeats
    show its block."""
    enclosing = list_ancestors(graph.root, int(graph.root.order.nodes[at]))
    if group is not None:
        enclosing = tuple(ident for ident in enclosing if group.startswith(f"{ident}."))
    for ident in enclosing:
        repeat = graph.groups[ident]
        if repeat.kind is FoldKind.REPEAT and blocks.get(ident) != ALL_BLOCKS:
            blocks[ident] = find_block(repeat, at)
    return set(enclosing)


def _apply_budget(
    root: FoldGroup, targets: set[str], must: set[str], blocks: VisibleBlocks
) -> tuple[set[str], bool]:
    """Choose from ``targets`` within the budget, ``must`` first, outer before inner; also return
    whether a group stayed folded."""
    opened: set[str] = set()
    box_count = 0
    full = False
    queue = deque([root])
    deferred: deque[FoldGroup] = deque()
    while queue or deferred:
        group = queue.popleft() if queue else deferred.popleft()
        children = get_visible_children(group, blocks)
        if group.id not in must and box_count + len(children) > MAX_BOXES:
            full = True
            continue
        box_count += len(children)
        opened.add(group.id)
        for child in children:
            if isinstance(child, FoldGroup) and child.id in targets:
                (queue if child.id in must else deferred).append(child)
    return opened, full
