"""Links of a view: one for all edges between two visible boxes, with its route."""

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
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.diff.graph_union import GraphUnion
from graphviz_dash.features.graph.drawing.layout import GAP, GUTTER, LayoutBox
from graphviz_dash.features.graph.drawing.path import PathMarks
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind, Leaf, LeafOrder
from graphviz_dash.model.graph import EdgeType, GraphEdge

_SHOWN_CHANGES: Final = (Change.ADDED, Change.CHANGED)


class Link(msgspec.Struct, frozen=True, array_like=True):
    """Dependency between two boxes."""

    source: str
    """Id of the source box."""
    target: str
    """Id of the target box."""
    points: list[int]
    """Polyline as x, y, x, y, ... in pixels at full zoom."""
    dashed: bool
    """Whether all its edges are programmatic."""
    text: str
    """Data of non-default edges; empty otherwise."""
    count: int
    """Number of edges; 0 for the link from a node to its nested graph."""
    critical: bool
    """Whether an edge is on the critical path and the graph has nodes outside it."""


class Edges(Struct, frozen=True):
    """Edges of a graph as arrays (edges,), with ends in fold order."""

    order: LeafOrder
    source: Ints
    """Leaf number of each source."""
    target: Ints
    """Leaf number of each target."""
    programmatic: npt.NDArray[np.bool_]
    """Whether each edge is programmatic."""
    critical: npt.NDArray[np.bool_]
    """All false if every edge is on the critical path."""
    texts: Mapping[int, frozenset[str]]
    """Text of the edge's link by edge number, without empty texts."""

    @classmethod
    def from_graph(
        cls, full_graph: ExpandedGraph, order: LeafOrder, path: PathMarks, union: GraphUnion | None
    ) -> Edges:
        """Build the edges of ``full_graph`` in the given fold order."""
        edges = full_graph.table.graph.edges
        count = len(edges)
        marked = frozenset[tuple[int, int]]() if path.is_line else path.edges
        critical = ((edge.source, edge.target) in marked for edge in edges)
        texts = {
            number: edge_texts
            for number, edge in enumerate(edges)
            if (edge_texts := _describe_edge(edge, union))
        }
        return cls(
            order,
            order.positions[np.fromiter((edge.source for edge in edges), np.int64, count)],
            order.positions[np.fromiter((edge.target for edge in edges), np.int64, count)],
            np.fromiter((edge.type is EdgeType.PROGRAMMATIC for edge in edges), np.bool_, count),
            np.fromiter(critical, np.bool_, count) if marked else np.zeros(count, np.bool_),
            texts,
        )


def _describe_edge(edge: GraphEdge, union: GraphUnion | None) -> frozenset[str]:
    change = None if union is None else union.edges.get((edge.source, edge.target))
    texts = {change.value} if change in _SHOWN_CHANGES and change is not None else set()
    if edge.type is not EdgeType.FULL or edge.from_port or edge.to_port:
        texts.add(f"{edge.type.value}, port {edge.from_port} to {edge.to_port}")
    return frozenset(texts)


def build_links(
    edges: Edges, count: int, flat: list[LayoutBox], parents: dict[str, LayoutBox]
) -> list[Link]:
    """Build one link for all edges between two boxes.

    Args:
        count: number of nodes in the graph.
        flat: visible boxes.
        parents: enclosing box by id.
    """
    box_of = np.full(count, -1, dtype=np.int64)
    holder_links: list[tuple[LayoutBox, LayoutBox]] = []
    for number, box in enumerate(flat):
        item = box.fold
        if isinstance(item, Leaf):
            box_of[edges.order.positions[item.node]] = number
        elif not box.open or item.kind is FoldKind.REPEAT:
            # Hidden leaves of a repeat belong to the repeat; inner boxes follow outer ones.
            box_of[item.first : item.first + item.count] = number
    for number, box in enumerate(flat):
        if box.open and isinstance(box.fold, FoldGroup) and box.fold.kind is FoldKind.HOLDER:
            # Successors of the node follow its bodies: its edges end at the group.
            holder, *bodies = box.inside
            box_of[box.fold.first] = number
            holder_links += [(holder, body) for body in bodies]
    inward = [
        Link(
            source.fold.id, body.fold.id, _build_points(source, body, parents), False, "", 0, False
        )
        for source, body in holder_links
    ]
    return inward + _build_crossing_links(edges, box_of, flat, parents)


def _build_crossing_links(
    edges: Edges, box_of: Ints, flat: list[LayoutBox], parents: dict[str, LayoutBox]
) -> list[Link]:
    """Build links; ``box_of`` holds the box number of each leaf."""
    source, target = box_of[edges.source], box_of[edges.target]
    crossing = np.flatnonzero(
        (source != target) & ~_find_enclosing_repeats(flat, parents)[source, target]
    )
    keys = source[crossing] * len(flat) + target[crossing]
    pairs, first, link_of, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    programmatic = np.bincount(link_of, edges.programmatic[crossing], len(pairs)).astype(np.int64)
    critical = np.bincount(link_of, edges.critical[crossing], len(pairs)) > 0
    texts: dict[int, set[str]] = {}
    if edges.texts:
        for link, edge in zip(link_of.tolist(), crossing.tolist(), strict=True):
            if edge in edges.texts:
                texts.setdefault(link, set()).update(edges.texts[edge])
    links = []
    # Sorted by the first edge of each link.
    for link in np.argsort(first).tolist():
        begin, end = (flat[number] for number in divmod(int(pairs[link]), len(flat)))
        links.append(
            Link(
                begin.fold.id,
                end.fold.id,
                _build_points(begin, end, parents),
                bool(programmatic[link] == counts[link]),
                "; ".join(sorted(texts.get(link, ()))),
                int(counts[link]),
                bool(critical[link]),
            )
        )
    return links


def _find_enclosing_repeats(
    flat: list[LayoutBox], parents: dict[str, LayoutBox]
) -> npt.NDArray[np.bool_]:
    """Mark pairs of boxes of which one is an unfolded repeat around the other: links to its hidden
    blocks are not drawn."""
    number = {id(box): index for index, box in enumerate(flat)}
    enclosed = np.zeros((len(flat), len(flat)), dtype=np.bool_)
    for index, box in enumerate(flat):
        for outer in _list_enclosing_boxes(box, parents):
            outer_index = number.get(id(outer))
            if outer_index is not None and getattr(outer.fold, "kind", None) is FoldKind.REPEAT:
                enclosed[index, outer_index] = enclosed[outer_index, index] = True
    return enclosed


def _build_points(source: LayoutBox, target: LayoutBox, parents: dict[str, LayoutBox]) -> list[int]:
    return [round(value) for value in _compute_route(source, target, parents)]


def _compute_route(
    source: LayoutBox, target: LayoutBox, parents: dict[str, LayoutBox]
) -> list[float]:
    """Route straight down from box to box, or up through the gutter next to the source's column."""
    x0, y0 = source.x + source.width / 2, source.y + source.height
    x1, y1 = target.x + target.width / 2, target.y
    if y1 >= y0:
        if abs(x0 - x1) < 1:
            return [x0, y0, x1, y1]
        middle = (y0 + y1) / 2 if y1 - y0 < 3 * GAP else y1 - GAP / 2
        return [x0, y0, x0, middle, x1, middle, x1, y1]
    gutter = _find_column_edge(source, target, parents) + GUTTER / 2
    return [x0, y0, x0, y0 + GAP / 2, gutter, y0 + GAP / 2, gutter, y1 - GAP / 2, x1, y1 - GAP / 2, x1, y1]  # fmt: skip  # noqa: E501


def _find_column_edge(source: LayoutBox, target: LayoutBox, parents: dict[str, LayoutBox]) -> float:
    """Return the right edge of the column below the nearest common box."""
    target_ancestors = {id(box): box for box in _list_enclosing_boxes(target, parents)}
    for inner, outer in pairwise([source, *_list_enclosing_boxes(source, parents)]):
        if id(outer) in target_ancestors:
            return inner.right
    return source.right


def _list_enclosing_boxes(box: LayoutBox, parents: dict[str, LayoutBox]) -> list[LayoutBox]:
    ancestors = []
    current: LayoutBox | None = parents.get(box.fold.id)
    while current is not None:
        ancestors.append(current)
        current = parents.get(current.fold.id)
    return ancestors
