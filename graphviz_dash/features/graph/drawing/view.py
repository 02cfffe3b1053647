"""View model of the DAG component: coloured boxes and links of a folded graph.

A view has a few hundred boxes for any graph size: groups unfold from the outside in within the
budget, then on request.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from graphviz_dash.analysis.nodes.replay_faults import FaultState
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.drawing.boxes import Box, build_box
from graphviz_dash.features.graph.drawing.colours import ColourBy, LegendEntry
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.layout import LayoutBox, VisibleBlocks, lay_out
from graphviz_dash.features.graph.drawing.links import Link, build_links
from graphviz_dash.features.graph.drawing.unfolding import DEFAULT_WIDTH, choose_unfolding
from graphviz_dash.features.graph.folding.tree import FoldGroup, list_ancestors


class DagView(msgspec.Struct, frozen=True):
    """Everything drawn of a folded graph."""

    nodes: int
    """Number of nodes of the graph."""
    edges: int
    """Number of edges of the graph."""
    width: int
    """Width of the drawing, in pixels at full zoom."""
    height: int
    """Height of the drawing, in pixels at full zoom."""
    boxes: list[Box]
    """Boxes, outer before inner."""
    names: list[str]
    """Full names of nodes with truncated labels."""
    links: list[Link]
    """Dependencies between boxes."""
    legend: list[LegendEntry]
    """Colours in use."""
    expanded: list[str]
    """Ids of the unfolded groups."""
    shown: dict[str, int]
    """Visible block of each repeat by id (-1: all blocks), if not the first."""
    focus: str | None
    """Id of the requested box."""
    full: bool
    """Whether groups stay folded for lack of space."""
    note: str
    """Description of the fold; empty if there is none."""
    complete: bool
    """Whether data derived from times is included."""


def build_dag_view(
    graph: FoldedGraph,
    colour_by: ColourBy,
    ratio: float,
    expanded: Iterable[str] | None = None,
    focus: int | None = None,
    first: str | None = None,
    shown: VisibleBlocks | None = None,
    width: float = DEFAULT_WIDTH,
) -> DagView:
    """Build the view of ``graph``.

    Args:
        ratio: width-to-height ratio of the canvas.
        expanded: ids of groups to unfold; None for as many as fit, and the groups around the first
            fault if colours show faults. Unknown ids are skipped; a group inside a folded one stays
            hidden.
        focus: index of a node that must be visible.
        first: id of a group that is unfolded before the others, which fold if necessary.
        shown: visible block of each repeat by id, or ALL; the first by default. Groups unfolded in
            another block unfold in that one.
        width: canvas width in pixels; limits unfolding to readable sizes.
    """
    visible = focus
    if expanded is None and focus is None and colour_by is ColourBy.FAULT:
        visible = _find_fault(graph)
    opened = choose_unfolding(graph, ratio, expanded, visible, first, shown or {}, width)
    blocks = opened.blocks
    placed = lay_out(graph.root, opened.ids, ratio, blocks)
    colours = graph.get_colours(colour_by)
    boxes: list[Box] = []
    names: dict[str, int] = {}
    parents: dict[str, LayoutBox] = {}
    flat = list(_list_visible(placed, parents))
    for box in flat:
        parent = parents[box.fold.id].fold
        title = parent.title if isinstance(parent, FoldGroup) else ""
        boxes.append(build_box(graph, box, colours, title, names, blocks))
    return DagView(
        nodes=len(graph.rows),
        edges=len(graph.full_graph.table.graph.edges),
        width=round(placed.width),
        height=round(placed.height),
        boxes=boxes,
        names=list(names),
        links=build_links(graph.edges, len(graph.rows), flat, parents),
        legend=colours.legend,
        expanded=sorted(opened.ids),
        shown={
            ident: block for ident, block in sorted(blocks.items()) if block and ident in opened.ids
        },
        focus=None if focus is None else f"n{focus}",
        full=opened.full,
        note=escape_control_characters(graph.root.note),
        complete=graph.complete,
    )


def _find_fault(graph: FoldedGraph) -> int | None:
    states = graph.get_fault_states()
    return min((node for node, state in states.items() if state is FaultState.FAULT), default=None)


def search_nodes(graph: FoldedGraph, text: str, limit: int) -> tuple[list[int], list[str]]:
    """Find nodes whose name, operator, module or source contains ``text``, ignoring case. Also
    return the ids of the groups around the first ``limit`` hits."""
    needle = text.lower()
    hits = [
        row.node.index
        for row in graph.rows
        if any(
            needle in (part or "").lower()
            for part in (row.node.label, row.origin.op, row.origin.module, row.origin.source)
        )
    ]
    group_ids: dict[str, None] = {}
    for node in hits[:limit]:
        group_ids.update(dict.fromkeys(list_ancestors(graph.root, node)))
    return hits, list(group_ids)


def _list_visible(placed: LayoutBox, parents: dict[str, LayoutBox]) -> Iterable[LayoutBox]:
    for box in placed.inside:
        parents[box.fold.id] = placed
        yield box
        if box.open:
            yield from _list_visible(box, parents)
