"""Places for the boxes of a folded graph: rows become columns as in a newspaper, branches stand
side by side. Sizes are in pixels at zoom 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from graphviz_dash.analysis.fold.tree import Fold, FoldKind, Group, Leaf

BOX_WIDTH: Final = 190.0
LEAF_HEIGHT: Final = 36.0
GROUP_HEIGHT: Final = 50.0
HEADER: Final = 24.0
PAD: Final = 10.0
GAP: Final = 16.0
GUTTER: Final = 34.0
"""Between columns; connectors run up in it."""

_NESTED_RATIO: Final = 0.75
"""Width over height that an unfolded group tends to."""

_MOST_COLUMNS: Final = 24

ALL: Final = -1
"""In place of the number of a block: all blocks of a repeat are shown."""

Shown: TypeAlias = Mapping[str, int]
"""Which block of an unfolded REPEAT stands for all, by its id; the first where it is not told."""


def shown_children(group: Group, shown: Shown) -> tuple[Fold, ...]:
    """What is seen in an unfolded group: of a REPEAT one block, unless ALL."""
    block = shown.get(group.id, 0)
    if group.kind is not FoldKind.REPEAT or block == ALL:
        return group.children
    return (group.blocks[min(block, len(group.blocks) - 1)],)


@dataclass
class Placed:
    """A leaf or a group with its place. ``inside`` are the children of an unfolded group.

    ``column`` is the place's column within its parent's row; ``right`` the x of that column's right
    edge, where the gutter begins. Coordinates are absolute once :func:`place` is done.
    """

    fold: Fold
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    column: int = 0
    right: float = 0.0
    open: bool = False
    inside: list[Placed] = field(default_factory=list)


def place(root: Group, expanded: frozenset[str], ratio: float, shown: Shown) -> Placed:
    """The boxes of ``root`` with the groups of ``expanded`` unfolded (the root always is).

    Args:
        ratio: width over height that the whole should have.
        shown: the blocks of repeats that stand for all.
    """
    placed = _measure(root, expanded | {root.id}, ratio, shown)
    _shift(placed, 0.0, 0.0)
    return placed


def _measure(item: Fold, expanded: frozenset[str], ratio: float, shown: Shown) -> Placed:
    if isinstance(item, Leaf):
        return Placed(item, BOX_WIDTH, LEAF_HEIGHT)
    if item.id not in expanded:
        return Placed(item, BOX_WIDTH, GROUP_HEIGHT)
    # What is alone in a group has the room of it.
    children = shown_children(item, shown)
    inner = ratio if len(children) == 1 else _NESTED_RATIO
    inside = [_measure(child, expanded, inner, shown) for child in children]
    if item.kind is FoldKind.PARALLEL:
        width, height = _side_by_side(inside)
    elif item.kind is FoldKind.HOLDER:
        width, height = _under(inside)
    else:
        width, height = _columns(inside, ratio)
    header = 0.0 if item.kind is FoldKind.GRAPH else HEADER
    for one in inside:
        one.x += PAD
        one.right += PAD
        one.y += header + PAD
    return Placed(item, width + 2 * PAD, height + header + 2 * PAD, open=True, inside=inside)


def _side_by_side(inside: Sequence[Placed]) -> tuple[float, float]:
    x = 0.0
    for one in inside:
        one.x = x
        one.right = x + one.width
        x += one.width + GAP
    return x - GAP, max(one.height for one in inside)


def _under(inside: Sequence[Placed]) -> tuple[float, float]:
    """The first box above the others, which stand side by side."""
    holder, *bodies = inside
    width, height = _side_by_side(bodies)
    below = holder.height + 1.5 * GAP
    for one in bodies:
        one.y = below
    whole = max(width, holder.width)
    holder.x = (whole - holder.width) / 2
    holder.right = holder.x + holder.width
    for one in bodies:
        one.x += (whole - width) / 2
        one.right += (whole - width) / 2
    return whole, below + height


def _columns(inside: Sequence[Placed], ratio: float) -> tuple[float, float]:
    """Places a row of boxes in as many columns as come nearest to ``ratio``; width and height."""
    if not inside:
        return BOX_WIDTH, 0.0
    best: tuple[float, list[int]] | None = None
    total = sum(one.height + GAP for one in inside)
    for count in range(1, min(_MOST_COLUMNS, len(inside)) + 1):
        columns = _split(inside, total / count)
        width, height = _extent(inside, columns)
        # A ratio half as wide is as far off as one twice as wide.
        off = max(width / height / ratio, ratio / (width / height))
        if best is None or off < best[0]:
            best = (off, columns)
    columns = best[1] if best else [0] * len(inside)
    width, height = _extent(inside, columns)
    x = 0.0
    for number in range(max(columns) + 1):
        members = [one for one, column in zip(inside, columns, strict=True) if column == number]
        widest = max(one.width for one in members)
        y = 0.0
        for one in members:
            one.column = number
            one.x = x + (widest - one.width) / 2
            one.right = x + widest
            one.y = y
            y += one.height + GAP
        x += widest + GUTTER
    return width, height


def _split(inside: Sequence[Placed], target: float) -> list[int]:
    """The column of each box when a column is full at about ``target`` pixels."""
    columns = []
    column, filled = 0, 0.0
    for one in inside:
        # Half of a box may hang over: columns end as evenly as they can.
        if filled and filled + one.height / 2 > target:
            column, filled = column + 1, 0.0
        columns.append(column)
        filled += one.height + GAP
    return columns


def _extent(inside: Sequence[Placed], columns: list[int]) -> tuple[float, float]:
    widths: dict[int, float] = {}
    heights: dict[int, float] = {}
    for one, column in zip(inside, columns, strict=True):
        widths[column] = max(widths.get(column, 0.0), one.width)
        heights[column] = heights.get(column, -GAP) + one.height + GAP
    return sum(widths.values()) + GUTTER * (len(widths) - 1), max(heights.values())


def _shift(placed: Placed, x: float, y: float) -> None:
    placed.x += x
    placed.y += y
    placed.right += x
    for one in placed.inside:
        _shift(one, placed.x, placed.y)
