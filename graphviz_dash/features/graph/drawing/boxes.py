"""Boxes of a view and their text, for a node or a group of nodes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.diff_narrative import format_node_changes
from graphviz_dash.features.graph.drawing.colours import NodeColours
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.layout import ALL_BLOCKS, LayoutBox, VisibleBlocks
from graphviz_dash.features.graph.drawing.node_note import (
    ATEN_PREFIX,
    build_node_lines,
    format_work_name,
)
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind, Leaf
from graphviz_dash.units import format_ns, pluralize

_LABEL_LENGTH: Final = 44
_NAME_LENGTH: Final = 160


class Box(msgspec.Struct, frozen=True, array_like=True):
    """Box of the drawing: a node (``node`` >= 0) or a group. Lengths are in pixels at full zoom;
    colours index the view's legend."""

    id: str
    """"n" and the index for a node, or the fold path for a group, such as "g.0.2"."""
    x: int
    """Left edge."""
    y: int
    """Top edge."""
    width: int
    """Width."""
    height: int
    """Height."""
    node: int
    """Index of the node in the full graph; -1 for a group."""
    open: bool
    """Whether the group is unfolded."""
    label: str
    """First line: operator or module of a node, if known."""
    note: str
    """Second line: kernel of a node, or description of a group."""
    time: str
    """GPU time per replay; empty if not measured."""
    colour: int
    """Colour of the node, or of most of the group."""
    strip: list[int]
    """Colours of a folded group's nodes, in order."""
    repeats: int
    """Number of blocks of a repeat; 0 for other boxes."""
    name: int
    """Index of the full name in the view's ``names``; -1 if the label is complete."""
    body: bool
    """Whether it is a graph inside a node."""
    where: str
    """Reference such as "node 3 of graph-0.7"; empty for "node" and its index."""
    disabled: bool
    """Whether the node does not run: disabled in its executable, or removed in a comparison."""
    critical: bool
    """Whether it contains critical nodes and the graph has others."""
    first: int
    """Number of its first node in fold order."""
    count: int
    """Number of nodes."""
    block: int
    """Number of the visible block of an unfolded repeat; -1 if it shows all blocks or is not a
    repeat."""
    differ: int
    """Number of blocks that differ from most blocks of a repeat."""


def build_box(
    graph: FoldedGraph,
    box: LayoutBox,
    colours: NodeColours,
    above: str,
    names: dict[str, int],
    blocks: VisibleBlocks,
) -> Box:
    """Build the box of a leaf or group. ``above`` is the enclosing group's title, which is not
    repeated. Full names are added to ``names`` once each."""
    item = box.fold
    first = int(graph.root.order.positions[item.node]) if isinstance(item, Leaf) else item.first
    count = 1 if isinstance(item, Leaf) else item.count
    position: dict[str, Any] = {
        "x": round(box.x),
        "y": round(box.y),
        "width": round(box.width),
        "height": round(box.height),
        "critical": bool(graph.critical[first + count] > graph.critical[first]),
        "first": first,
        "count": count,
    }
    if isinstance(item, Leaf):
        row = graph.rows[item.node]
        label, note = build_node_lines(row, above)
        name = escape_control_characters(row.node.label)
        name_index = (
            -1 if name == _cut(label) else names.setdefault(name[:_NAME_LENGTH], len(names))
        )
        owner, index = graph.full_graph.owners[item.node]
        reference = "" if owner == graph.full_graph.table.graph.id else f"node {index} of {owner}"
        state: dict[str, Any] = {
            "note": _cut(note), "disabled": False,
        } | _build_state(graph, item.node)  # fmt: skip
        return Box(
            id=item.id, **position, node=item.node, open=False, label=_cut(label),
            time=format_ns(row.times.median_ns) if graph.complete else "",
            colour=colours.get_leaf_colour(first), strip=[], repeats=0, name=name_index, body=False,
            where=escape_control_characters(reference), block=-1, differ=0, **state,
        )  # fmt: skip
    title = escape_control_characters(_shorten_title(item.title, above)).removeprefix(ATEN_PREFIX)
    repeated = item.kind is FoldKind.REPEAT
    block = blocks.get(item.id, 0) if repeated and box.open else ALL_BLOCKS
    return Box(
        id=item.id, **position, node=-1, open=box.open, label=_cut(title),
        note=_format_note(item, count),
        time=graph.times.format_time(first, count), colour=colours.get_group_colour(first, count),
        strip=[] if box.open else colours.sample_colours(first, count),
        repeats=item.repeats, name=-1,
        body=item.kind is FoldKind.BODY, where="", disabled=False,
        block=block, differ=graph.count_differing_blocks(item) if repeated else 0,
    )  # fmt: skip


def _cut(text: str) -> str:
    """Cut a text of a box, with an ellipsis; the client cuts it to the box again."""
    return text if len(text) <= _LABEL_LENGTH else f"{text[: _LABEL_LENGTH - 1]}…"


def _format_note(group: FoldGroup, count: int) -> str:
    nodes = pluralize(count, "node")
    return (
        f"{nodes} · {escape_control_characters(group.note)}"[:_NAME_LENGTH] if group.note else nodes
    )


def _shorten_title(title: str, above: str) -> str:
    """Omit the enclosing title: "attention" in "layers.0", or "layers.0-49" for "Net.layers.0-49"
    in "Net.layers.0-2499"."""
    if title.startswith(f"{above}."):
        return title.removeprefix(f"{above}.")
    stem, _, _ = title.rpartition(".")
    if stem and "," not in title and above.startswith(f"{stem}."):
        return title.removeprefix(f"{stem.rpartition('.')[0]}.")
    return title


def _build_state(graph: FoldedGraph, node: int) -> dict[str, Any]:
    if graph.union is not None:
        compared = graph.union.nodes[node]
        is_removed = compared.change is Change.REMOVED
        note = format_node_changes(compared) or compared.change.value
        is_same = compared.change is Change.SAME
        return {"disabled": is_removed} | ({} if is_same else {"note": _cut(note)})
    row = graph.rows[node]
    if row.node.enabled is not False:
        return {}
    return {"disabled": True, "note": _cut(f"disabled · {format_work_name(row.node)}")}
