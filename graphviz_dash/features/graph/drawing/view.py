"""What the DAG component draws: boxes and links of a folded graph, coloured, within a budget.

A view is a few hundred boxes whatever the size of the graph: groups are unfolded from the outside
in while the budget lasts, and then as the reader asks.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from graphviz_dash.errors import printable
from graphviz_dash.features.graph.drawing.boxes import Box, box_of
from graphviz_dash.features.graph.drawing.colours import ColourBy, LegendEntry
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.layout import Placed, Shown, lay_out
from graphviz_dash.features.graph.drawing.links import Link, links
from graphviz_dash.features.graph.drawing.unfolding import USUAL_WIDTH, unfolding
from graphviz_dash.features.graph.folding.tree import Group, ancestors


class DagView(msgspec.Struct, frozen=True):
    """All that is drawn of a folded graph."""

    nodes: int
    """Nodes of the graph."""
    edges: int
    """Edges of the graph."""
    width: int
    """Of the drawing, in pixels at full zoom."""
    height: int
    """Of the drawing, in pixels at full zoom."""
    boxes: list[Box]
    """Outer boxes before those inside them."""
    names: list[str]
    """Whole names of nodes whose label is cut."""
    links: list[Link]
    """The dependencies between boxes."""
    legend: list[LegendEntry]
    """The colours in use."""
    expanded: list[str]
    """Ids of the unfolded groups."""
    shown: dict[str, int]
    """By id of a repeat the block that stands for all (-1: none does), where it is not the first.
    """
    focus: str | None
    """Id of the box that was asked to be seen."""
    full: bool
    """Whether groups stay folded for want of room."""
    note: str
    """How the graph is folded; empty where there is nothing to say."""
    complete: bool
    """Whether what follows from times is in it."""


def dag_view(
    graph: FoldedGraph,
    colour_by: ColourBy,
    ratio: float,
    expanded: Iterable[str] | None = None,
    focus: int | None = None,
    first: str | None = None,
    shown: Shown | None = None,
    width: float = USUAL_WIDTH,
) -> DagView:
    """The view of ``graph``.

    Args:
        ratio: width over height of the canvas.
        expanded: ids of the groups to unfold; None for what fits into the budget. Unknown ids are
            passed over, and a group inside a folded one stays unseen.
        focus: the index of a node that must be visible: the groups around it are unfolded.
        first: the id of a group that is unfolded before the others, which fold if they must.
        shown: the number of the block that a repeat shows for all, by its id, or ALL; the first
            unless told. What is unfolded in another block is unfolded in that one.
        width: of the canvas, in pixels: as much is unfolded as can be read on it.
    """
    opened = unfolding(graph, ratio, expanded, focus, first, shown or {}, width)
    blocks = opened.blocks
    placed = lay_out(graph.root, opened.ids, ratio, blocks)
    colours = graph.colours(colour_by)
    boxes: list[Box] = []
    names: dict[str, int] = {}
    parents: dict[str, Placed] = {}
    flat = list(_visible(placed, parents))
    for box in flat:
        above = parents[box.fold.id].fold
        title = above.title if isinstance(above, Group) else ""
        boxes.append(box_of(graph, box, colours, title, names, blocks))
    return DagView(
        nodes=len(graph.rows),
        edges=len(graph.whole.table.graph.edges),
        width=round(placed.width),
        height=round(placed.height),
        boxes=boxes,
        names=list(names),
        links=links(graph.edges, len(graph.rows), flat, parents),
        legend=colours.legend,
        expanded=sorted(opened.ids),
        shown={ident: at for ident, at in sorted(blocks.items()) if at and ident in opened.ids},
        focus=None if focus is None else f"n{focus}",
        full=opened.full,
        note=printable(graph.root.note),
        complete=graph.complete,
    )


def search(graph: FoldedGraph, text: str, most: int) -> tuple[list[int], list[str]]:
    """The nodes whose name, operator, module or source holds ``text`` (case ignored), the first
    ``most``; and the ids of the groups around these."""
    wanted = text.lower()
    hits = [
        row.node.index
        for row in graph.rows
        if any(
            wanted in (part or "").lower()
            for part in (row.node.label, row.origin.op, row.origin.module, row.origin.source)
        )
    ]
    around: dict[str, None] = {}
    for node in hits[:most]:
        around.update(dict.fromkeys(ancestors(graph.root, node)))
    return hits, list(around)


def _visible(placed: Placed, parents: dict[str, Placed]) -> Iterable[Placed]:
    for box in placed.inside:
        parents[box.fold.id] = placed
        yield box
        if box.open:
            yield from _visible(box, parents)
