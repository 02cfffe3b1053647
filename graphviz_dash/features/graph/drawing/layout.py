"""Layout of a folded graph: rows in columns, branches side by side. Sizes are in pixels at zoom
1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct, field

from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldItem, FoldKind, Leaf

BOX_WIDTH: Final = 190.0
LEAF_HEIGHT: Final = 40.0
GROUP_HEIGHT: Final = 56.0
HEADER: Final = 24.0
PAD: Final = 10.0
GAP: Final = 16.0
GUTTER: Final = 34.0
"""Distance between columns; upward links use it."""

_NESTED_ASPECT_RATIO: Final = 0.75

_MAX_COLUMNS: Final = 24

ALL_BLOCKS: Final = -1
"""In place of a block number: all blocks of a repeat are shown."""

VisibleBlocks: TypeAlias = Mapping[str, int]
"""Visible block of each unfolded REPEAT, by id; the first by default."""


def get_visible_children(group: FoldGroup, visible: VisibleBlocks) -> tuple[FoldItem, ...]:
    """Return the visible children of an unfolded group: one block of a REPEAT, unless ALL."""
    block = visible.get(group.id, 0)
    if group.kind is not FoldKind.REPEAT or block == ALL_BLOCKS:
        return group.children
    return (group.blocks[min(block, len(group.blocks) - 1)],)


class LayoutBox(Struct):
    """Leaf or group with its position. Coordinates are absolute after :func:`lay_out`."""

    fold: FoldItem
    width: float
    """Width in pixels at zoom 1."""
    height: float
    """Height in pixels at zoom 1."""
    x: float = 0.0
    y: float = 0.0
    column: int = 0
    """Column number within its parent's row."""
    right: float = 0.0
    """Right edge of that column, where the gutter begins."""
    open: bool = False
    inside: list[LayoutBox] = field(default_factory=list)


def lay_out(
    root: FoldGroup, expanded: frozenset[str], ratio: float, visible: VisibleBlocks
) -> LayoutBox:
    """Lay out the boxes of ``root``, which is always unfolded.

    Args:
        ratio: target width-to-height ratio.
        visible: visible blocks of repeats.
    """
    box = _measure(root, expanded | {root.id}, ratio, visible)
    _shift_box(box, 0.0, 0.0)
    return box


def _measure(
    item: FoldItem, expanded: frozenset[str], ratio: float, visible: VisibleBlocks
) -> LayoutBox:
    if isinstance(item, Leaf):
        return LayoutBox(item, BOX_WIDTH, LEAF_HEIGHT)
    if item.id not in expanded:
        return LayoutBox(item, BOX_WIDTH, GROUP_HEIGHT)
    # A single child gets the full space of its group.
    children = get_visible_children(item, visible)
    inner = ratio if len(children) == 1 else _NESTED_ASPECT_RATIO
    inside = [_measure(child, expanded, inner, visible) for child in children]
    if item.kind is FoldKind.PARALLEL:
        width, height = _place_side_by_side(inside)
    elif item.kind is FoldKind.HOLDER:
        width, height = _place_bodies_below(inside)
    else:
        width, height = _place_in_columns(inside, ratio)
    header = 0.0 if item.kind is FoldKind.GRAPH else HEADER
    for child in inside:
        child.x += PAD
        child.right += PAD
        child.y += header + PAD
    return LayoutBox(item, width + 2 * PAD, height + header + 2 * PAD, open=True, inside=inside)


def _place_side_by_side(inside: Sequence[LayoutBox]) -> tuple[float, float]:
    x = 0.0
    for box in inside:
        box.x = x
        box.right = x + box.width
        x += box.width + GAP
    return x - GAP, max(box.height for box in inside)


def _place_bodies_below(inside: Sequence[LayoutBox]) -> tuple[float, float]:
    """Place the first box above the others."""
    holder, *bodies = inside
    width, height = _place_side_by_side(bodies)
    top = holder.height + 1.5 * GAP
    for body in bodies:
        body.y = top
    total_width = max(width, holder.width)
    holder.x = (total_width - holder.width) / 2
    holder.right = holder.x + holder.width
    for body in bodies:
        body.x += (total_width - width) / 2
        body.right += (total_width - width) / 2
    return total_width, top + height


def _place_in_columns(inside: Sequence[LayoutBox], ratio: float) -> tuple[float, float]:
    """Arrange a row of boxes in columns closest to ``ratio``; return width and height."""
    if not inside:
        return BOX_WIDTH, 0.0
    total = sum(box.height + GAP for box in inside)

    def compute_deviation(columns: list[int]) -> float:
        width, height = _compute_extent(inside, columns)
        # A ratio half as wide is as far off as one twice as wide.
        return max(width / height / ratio, ratio / (width / height))

    columns = min(
        (
            _assign_columns(inside, total / count)
            for count in range(1, min(_MAX_COLUMNS, len(inside)) + 1)
        ),
        key=compute_deviation,
    )
    width, height = _compute_extent(inside, columns)
    x = 0.0
    for number in range(max(columns) + 1):
        members = [box for box, column in zip(inside, columns, strict=True) if column == number]
        widest = max(box.width for box in members)
        y = 0.0
        for box in members:
            box.column = number
            box.x = x + (widest - box.width) / 2
            box.right = x + widest
            box.y = y
            y += box.height + GAP
        x += widest + GUTTER
    return width, height


def _assign_columns(inside: Sequence[LayoutBox], target: float) -> list[int]:
    """Assign boxes to columns of about ``target`` pixels."""
    columns = []
    column, filled = 0, 0.0
    for box in inside:
        # Half of a box may exceed the limit, which keeps columns balanced.
        if filled and filled + box.height / 2 > target:
            column, filled = column + 1, 0.0
        columns.append(column)
        filled += box.height + GAP
    return columns


def _compute_extent(inside: Sequence[LayoutBox], columns: list[int]) -> tuple[float, float]:
    widths: dict[int, float] = {}
    heights: dict[int, float] = {}
    for box, column in zip(inside, columns, strict=True):
        widths[column] = max(widths.get(column, 0.0), box.width)
        heights[column] = heights.get(column, -GAP) + box.height + GAP
    return sum(widths.values()) + GUTTER * (len(widths) - 1), max(heights.values())


def _shift_box(box: LayoutBox, x: float, y: float) -> None:
    box.x += x
    box.y += y
    box.right += x
    for child in box.inside:
        _shift_box(child, box.x, box.y)
