"""Places for the boxes of a folded graph: rows become columns as in a newspaper, branches stand
side by side. Sizes are in pixels at zoom 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct, field

from graphviz_dash.features.graph.folding.tree import Fold, FoldKind, Group, Leaf

BOX_WIDTH: Final = 190.0
LEAF_HEIGHT: Final = 40.0
GROUP_HEIGHT: Final = 56.0
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
"""Which block of an unfolded REPEAT stands for all, by its id; the first where none is given."""


def shown_children(group: Group, shown: Shown) -> tuple[Fold, ...]:
    """What is seen in an unfolded group: of a REPEAT one block, unless ALL."""
    block = shown.get(group.id, 0)
    if group.kind is not FoldKind.REPEAT or block == ALL:
        return group.children
    return (group.blocks[min(block, len(group.blocks) - 1)],)


class Placed(Struct):
    """A leaf or a group with its place. Coordinates are absolute once :func:`lay_out` is done."""

    fold: Fold
    """What it is the box of."""
    width: float
    """In pixels at zoom 1."""
    height: float
    """In pixels at zoom 1."""
    x: float = 0.0
    """Left edge."""
    y: float = 0.0
    """Upper edge."""
    column: int = 0
    """Number of its column within its parent's row."""
    right: float = 0.0
    """The right edge of that column, where the gutter begins."""
    open: bool = False
    """Whether it is an unfolded group."""
    inside: list[Placed] = field(default_factory=list)
    """The children of an unfolded group."""


def lay_out(root: Group, expanded: frozenset[str], ratio: float, shown: Shown) -> Placed:
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
    for child in inside:
        child.x += PAD
        child.right += PAD
        child.y += header + PAD
    return Placed(item, width + 2 * PAD, height + header + 2 * PAD, open=True, inside=inside)


def _side_by_side(inside: Sequence[Placed]) -> tuple[float, float]:
    x = 0.0
    for box in inside:
        box.x = x
        box.right = x + box.width
        x += box.width + GAP
    return x - GAP, max(box.height for box in inside)


def _under(inside: Sequence[Placed]) -> tuple[float, float]:
    """The first box above the others, which stand side by side."""
    holder, *bodies = inside
    width, height = _side_by_side(bodies)
    below = holder.height + 1.5 * GAP
    for body in bodies:
        body.y = below
    whole = max(width, holder.width)
    holder.x = (whole - holder.width) / 2
    holder.right = holder.x + holder.width
    for body in bodies:
        body.x += (whole - width) / 2
        body.right += (whole - width) / 2
    return whole, below + height


def _columns(inside: Sequence[Placed], ratio: float) -> tuple[float, float]:
    """Places a row of boxes in as many columns as come nearest to ``ratio``; width and height."""
    if not inside:
        return BOX_WIDTH, 0.0
    best: tuple[float, list[int]] | None = None
    total = sum(box.height + GAP for box in inside)
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


def _split(inside: Sequence[Placed], target: float) -> list[int]:
    """The column of each box when a column is full at about ``target`` pixels."""
    columns = []
    column, filled = 0, 0.0
    for box in inside:
        # Half of a box may hang over: columns end as evenly as they can.
        if filled and filled + box.height / 2 > target:
            column, filled = column + 1, 0.0
        columns.append(column)
        filled += box.height + GAP
    return columns


def _extent(inside: Sequence[Placed], columns: list[int]) -> tuple[float, float]:
    widths: dict[int, float] = {}
    heights: dict[int, float] = {}
    for box, column in zip(inside, columns, strict=True):
        widths[column] = max(widths.get(column, 0.0), box.width)
        heights[column] = heights.get(column, -GAP) + box.height + GAP
    return sum(widths.values()) + GUTTER * (len(widths) - 1), max(heights.values())


def _shift(placed: Placed, x: float, y: float) -> None:
    placed.x += x
    placed.y += y
    placed.right += x
    for child in placed.inside:
        _shift(child, placed.x, placed.y)
