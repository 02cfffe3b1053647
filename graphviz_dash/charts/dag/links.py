"""The links of a view: one for all edges between two visible boxes, and the way it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.diff.graph_diff import Change
from graphviz_dash.analysis.diff.graph_union import GraphUnion
from graphviz_dash.analysis.fold.tree import FoldKind, Group, Leaf, Order
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.charts.dag.layout import GAP, GUTTER, Placed
from graphviz_dash.charts.dag.path import PathMarks
from graphviz_dash.model.graph import EdgeType, GraphEdge

_TOLD: Final = (Change.ADDED, Change.CHANGED)


class Link(msgspec.Struct, frozen=True, array_like=True):
    """A dependency between two boxes: a polyline as x, y, x, y, ...; ``dashed`` for a programmatic
    one; ``text`` is the edge's data where it is not the default; ``count`` edges run in it, none in
    the link from a node to a graph inside it. ``critical``: one of them is on the critical path,
    and some node is not."""

    source: str
    target: str
    points: list[int]
    dashed: bool
    text: str
    count: int
    critical: bool


@dataclass(frozen=True)
class Edges:
    """The edges of a graph as arrays (edges,), ``source`` and ``target`` by the ``order`` of the
    fold, whether they are ``programmatic`` and ``critical``. ``told`` has what is said of an edge,
    where there is anything to say."""

    order: Order
    source: Ints
    target: Ints
    programmatic: npt.NDArray[np.bool_]
    critical: npt.NDArray[np.bool_]
    told: Mapping[int, frozenset[str]]

    @classmethod
    def of(
        cls, whole: WholeGraph, order: Order, path: PathMarks, union: GraphUnion | None
    ) -> Edges:
        """The edges of ``whole``, whose nodes the fold puts into ``order``."""
        edges = whole.table.graph.edges
        count = len(edges)
        marked = frozenset[tuple[int, int]]() if path.is_line else path.edges
        critical = ((edge.source, edge.target) in marked for edge in edges)
        told = {at: said for at, edge in enumerate(edges) if (said := _said(edge, union))}
        return cls(
            order,
            order.at[np.fromiter((edge.source for edge in edges), np.int64, count)],
            order.at[np.fromiter((edge.target for edge in edges), np.int64, count)],
            np.fromiter((edge.type is EdgeType.PROGRAMMATIC for edge in edges), np.bool_, count),
            np.fromiter(critical, np.bool_, count) if marked else np.zeros(count, np.bool_),
            told,
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
    for number, one in enumerate(flat):
        item = one.fold
        if isinstance(item, Leaf):
            box_of[edges.order.at[item.node]] = number
        elif not one.open or item.kind is FoldKind.REPEAT:
            # What is not shown of a repeat is the repeat's; inner boxes come after outer ones.
            box_of[item.first : item.first + item.count] = number
    for number, one in enumerate(flat):
        if one.open and isinstance(one.fold, Group) and one.fold.kind is FoldKind.HOLDER:
            # What comes after the node comes after what it holds: its edges end at the group.
            holder, *bodies = one.inside
            box_of[one.fold.first] = number
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
    if edges.told:
        for link, edge in zip(link_of.tolist(), crossing.tolist(), strict=True):
            if edge in edges.told:
                said.setdefault(link, set()).update(edges.told[edge])
    found = []
    # In the order of the first edge of each.
    for link in np.argsort(first).tolist():
        begin, end = (flat[number] for number in divmod(int(pairs[link]), len(flat)))
        found.append(
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
    return found


def _within(flat: list[Placed], parents: dict[str, Placed]) -> npt.NDArray[np.bool_]:
    """Whether of two boxes one is an unfolded repeat around the other: what leads from the block
    that is shown to others of the repeat is not drawn."""
    number = {id(one): at for at, one in enumerate(flat)}
    found = np.zeros((len(flat), len(flat)), dtype=np.bool_)
    for at, one in enumerate(flat):
        for outer in _upward(one, parents):
            around = number.get(id(outer))
            if around is not None and getattr(outer.fold, "kind", None) is FoldKind.REPEAT:
                found[at, around] = found[around, at] = True
    return found


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
    above = {id(one): one for one in _upward(target, parents)}
    for inner, outer in pairwise([source, *_upward(source, parents)]):
        if id(outer) in above:
            return inner.right
    return source.right


def _upward(one: Placed, parents: dict[str, Placed]) -> list[Placed]:
    found = []
    current: Placed | None = parents.get(one.fold.id)
    while current is not None:
        found.append(current)
        current = parents.get(current.fold.id)
    return found
