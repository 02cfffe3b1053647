"""The links of a view: one for all edges between two visible boxes, and the way it takes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.features.graph.diff.graph_union import GraphUnion
from graphviz_dash.features.graph.drawing.layout import GAP, GUTTER, Placed
from graphviz_dash.features.graph.drawing.path import PathMarks
from graphviz_dash.features.graph.folding.tree import FoldKind, Group, Leaf, LeafOrder
from graphviz_dash.model.graph import EdgeType, GraphEdge

_TOLD: Final = (Change.ADDED, Change.CHANGED)


class Link(msgspec.Struct, frozen=True, array_like=True):
    """A dependency between two boxes."""

    source: str
    """Id of the box that it leaves."""
    target: str
    """Id of the box that it enters."""
    points: list[int]
    """A polyline as x, y, x, y, ... in pixels at full zoom."""
    dashed: bool
    """Whether all its edges are programmatic."""
    text: str
    """The edges' data where it is not the default; empty otherwise."""
    count: int
    """Edges that run in it; 0 in the link from a node to a graph inside it."""
    critical: bool
    """Whether an edge is on the critical path, and some node is not."""


class Edges(Struct, frozen=True):
    """The edges of a graph as arrays (edges,), their ends by the order of the fold."""

    order: LeafOrder
    """The order of the fold."""
    source: Ints
    """Number of the leaf that each leaves."""
    target: Ints
    """Number of the leaf that each enters."""
    programmatic: npt.NDArray[np.bool_]
    """Whether each is programmatic."""
    critical: npt.NDArray[np.bool_]
    """Whether each is on the critical path; none where all are."""
    texts: Mapping[int, frozenset[str]]
    """By number of an edge what its link says of it, where there is anything to say."""

    @classmethod
    def of(
        cls, whole: WholeGraph, order: LeafOrder, path: PathMarks, union: GraphUnion | None
    ) -> Edges:
        """The edges of ``whole``, whose nodes the fold puts into ``order``."""
        edges = whole.table.graph.edges
        count = len(edges)
        marked = frozenset[tuple[int, int]]() if path.is_line else path.edges
        critical = ((edge.source, edge.target) in marked for edge in edges)
        texts = {at: said for at, edge in enumerate(edges) if (said := _said(edge, union))}
        return cls(
            order,
            order.at[np.fromiter((edge.source for edge in edges), np.int64, count)],
            order.at[np.fromiter((edge.target for edge in edges), np.int64, count)],
            np.fromiter((edge.type is EdgeType.PROGRAMMATIC for edge in edges), np.bool_, count),
            np.fromiter(critical, np.bool_, count) if marked else np.zeros(count, np.bool_),
            texts,
        )


def _said(edge: GraphEdge, union: GraphUnion | None) -> frozenset[str]:
    change = None if union is None else union.edges.get((edge.source, edge.target))
    said = {change.value} if change in _TOLD and change is not None else set()
    if edge.type is not EdgeType.FULL or edge.from_port or edge.to_port:
        said.add(f"{edge.type.value}, port {edge.from_port} to {edge.to_port}")
    return frozenset(said)


def links(edges: Edges, count: int, flat: list[Placed], parents: dict[str, Placed]) -> list[Link]:
    """One link for all edges between two boxes.

    Args:
        count: nodes of the graph.
        flat: the visible boxes.
        parents: the box around each box, by id.
    """
    box_of = np.full(count, -1, dtype=np.int64)
    held: list[tuple[Placed, Placed]] = []
    for number, box in enumerate(flat):
        item = box.fold
        if isinstance(item, Leaf):
            box_of[edges.order.at[item.node]] = number
        elif not box.open or item.kind is FoldKind.REPEAT:
            # What is not shown of a repeat is the repeat's; inner boxes come after outer ones.
            box_of[item.first : item.first + item.count] = number
    for number, box in enumerate(flat):
        if box.open and isinstance(box.fold, Group) and box.fold.kind is FoldKind.HOLDER:
            # What comes after the node comes after what it holds: its edges end at the group.
            holder, *bodies = box.inside
            box_of[box.fold.first] = number
            held += [(holder, body) for body in bodies]
    inward = [
        Link(source.fold.id, body.fold.id, _points(source, body, parents), False, "", 0, False)
        for source, body in held
    ]
    return inward + _between(edges, box_of, flat, parents)


def _between(
    edges: Edges, box_of: Ints, flat: list[Placed], parents: dict[str, Placed]
) -> list[Link]:
    """The links of edges; ``box_of`` numbers the box of each leaf."""
    source, target = box_of[edges.source], box_of[edges.target]
    crossing = np.flatnonzero((source != target) & ~_within(flat, parents)[source, target])
    keys = source[crossing] * len(flat) + target[crossing]
    pairs, first, link_of, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    programmatic = np.bincount(link_of, edges.programmatic[crossing], len(pairs)).astype(np.int64)
    critical = np.bincount(link_of, edges.critical[crossing], len(pairs)) > 0
    said: dict[int, set[str]] = {}
    if edges.texts:
        for link, edge in zip(link_of.tolist(), crossing.tolist(), strict=True):
            if edge in edges.texts:
                said.setdefault(link, set()).update(edges.texts[edge])
    drawn = []
    # In the order of the first edge of each.
    for link in np.argsort(first).tolist():
        begin, end = (flat[number] for number in divmod(int(pairs[link]), len(flat)))
        drawn.append(
            Link(
                begin.fold.id,
                end.fold.id,
                _points(begin, end, parents),
                bool(programmatic[link] == counts[link]),
                "; ".join(sorted(said.get(link, ()))),
                int(counts[link]),
                bool(critical[link]),
            )
        )
    return drawn


def _within(flat: list[Placed], parents: dict[str, Placed]) -> npt.NDArray[np.bool_]:
    """Whether of two boxes one is an unfolded repeat around the other: what leads from the block
    that is shown to others of the repeat is not drawn."""
    number = {id(box): at for at, box in enumerate(flat)}
    within = np.zeros((len(flat), len(flat)), dtype=np.bool_)
    for at, box in enumerate(flat):
        for outer in _upward(box, parents):
            around = number.get(id(outer))
            if around is not None and getattr(outer.fold, "kind", None) is FoldKind.REPEAT:
                within[at, around] = within[around, at] = True
    return within


def _points(source: Placed, target: Placed, parents: dict[str, Placed]) -> list[int]:
    return [round(value) for value in _route(source, target, parents)]


def _route(source: Placed, target: Placed, parents: dict[str, Placed]) -> list[float]:
    """From the foot of one box to the head of another: straight down, or up through the gutter
    beside the column in which the source lies."""
    x0, y0 = source.x + source.width / 2, source.y + source.height
    x1, y1 = target.x + target.width / 2, target.y
    if y1 >= y0:
        if abs(x0 - x1) < 1:
            return [x0, y0, x1, y1]
        middle = (y0 + y1) / 2 if y1 - y0 < 3 * GAP else y1 - GAP / 2
        return [x0, y0, x0, middle, x1, middle, x1, y1]
    gutter = _column_edge(source, target, parents) + GUTTER / 2
    return [x0, y0, x0, y0 + GAP / 2, gutter, y0 + GAP / 2, gutter, y1 - GAP / 2, x1, y1 - GAP / 2, x1, y1]  # fmt: skip  # noqa: E501


def _column_edge(source: Placed, target: Placed, parents: dict[str, Placed]) -> float:
    """The right edge of the column in which the two boxes' ways part."""
    above = {id(box): box for box in _upward(target, parents)}
    for inner, outer in pairwise([source, *_upward(source, parents)]):
        if id(outer) in above:
            return inner.right
    return source.right


def _upward(box: Placed, parents: dict[str, Placed]) -> list[Placed]:
    around = []
    current: Placed | None = parents.get(box.fold.id)
    while current is not None:
        around.append(current)
        current = parents.get(current.fold.id)
    return around
