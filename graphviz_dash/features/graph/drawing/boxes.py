"""The boxes of a view: what stands in each, for a node or a group of nodes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.errors import printable
from graphviz_dash.features.graph.diff_narrative import node_changes
from graphviz_dash.features.graph.drawing.colours import NodeColours
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.layout import ALL, Placed, Shown
from graphviz_dash.features.graph.drawing.node_note import ATEN, node_lines, work_name
from graphviz_dash.features.graph.folding.tree import FoldKind, Group, Leaf
from graphviz_dash.units import counted, format_ns

_LABEL: Final = 44
_NAME: Final = 160


class Box(msgspec.Struct, frozen=True, array_like=True):
    """A box of the drawing: a node (``node`` >= 0) or a group of nodes. Lengths are in pixels at
    full zoom; colours index the view's legend."""

    id: str
    """Of a node "n" and its index, of a group its path in the fold, such as "g.0.2"."""
    x: int
    """Left edge."""
    y: int
    """Upper edge."""
    width: int
    """From left to right."""
    height: int
    """From top to bottom."""
    node: int
    """Index of the node in the whole graph; -1 for a group."""
    open: bool
    """Whether the group is unfolded."""
    label: str
    """First line: of a node its operator or module, where one is known."""
    note: str
    """Second line: of a node its kernel, of a group what it is."""
    time: str
    """GPU time in a replay; empty where none was measured."""
    colour: int
    """Colour of the node, or of most of the group."""
    strip: list[int]
    """Colours of a folded group's nodes, in order."""
    repeats: int
    """How many blocks a repeat has; 0 for other boxes."""
    name: int
    """Index of the whole name in the view's ``names``; -1 where the label says all."""
    body: bool
    """Whether it is a graph inside a node."""
    where: str
    """How the node is spoken of, "node 3 of graph-0.7"; empty for "node" and its index."""
    disabled: bool
    """The node does not run: its executable has it disabled, or a comparison says it is gone."""
    critical: bool
    """Whether something in it is on the critical path, and something of the graph is not."""
    first: int
    """Number of its first node in the order of the fold."""
    count: int
    """How many nodes it holds."""
    block: int
    """Number of the block that an unfolded repeat shows for all; -1 where it shows all or is none.
    """
    differ: int
    """How many blocks of a repeat are not like most."""


def box_of(
    graph: FoldedGraph,
    placed: Placed,
    colours: NodeColours,
    above: str,
    names: dict[str, int],
    blocks: Shown,
) -> Box:
    """The box of a leaf or group; ``above`` is the title of the group around it, which a title
    need not say again. Whole names go into ``names``, once each."""
    item = placed.fold
    first = int(graph.root.order.at[item.node]) if isinstance(item, Leaf) else item.first
    count = 1 if isinstance(item, Leaf) else item.count
    where: dict[str, Any] = {
        "x": round(placed.x),
        "y": round(placed.y),
        "width": round(placed.width),
        "height": round(placed.height),
        "critical": bool(graph.critical[first + count] > graph.critical[first]),
        "first": first,
        "count": count,
    }
    if isinstance(item, Leaf):
        row = graph.rows[item.node]
        label, note = node_lines(row, above)
        name = printable(row.node.label)
        whole = -1 if name == label[:_LABEL] else names.setdefault(name[:_NAME], len(names))
        owner, index = graph.whole.owner[item.node]
        spoken = "" if owner == graph.whole.table.graph.id else f"node {index} of {owner}"
        state: dict[str, Any] = {
            "note": note[:_LABEL], "disabled": False,
        } | _state(graph, item.node)  # fmt: skip
        return Box(
            id=item.id, **where, node=item.node, open=False, label=label[:_LABEL],
            time=format_ns(row.times.median_ns) if graph.complete else "",
            colour=colours.of_leaf(first), strip=[], repeats=0, name=whole, body=False,
            where=printable(spoken), block=-1, differ=0, **state,
        )  # fmt: skip
    title = printable(_inner_title(item.title, above)).removeprefix(ATEN)
    repeated = item.kind is FoldKind.REPEAT
    block = blocks.get(item.id, 0) if repeated and placed.open else ALL
    return Box(
        id=item.id, **where, node=-1, open=placed.open, label=title[:_LABEL],
        note=_note(item, count),
        time=graph.times.text(first, count), colour=colours.most(first, count),
        strip=[] if placed.open else colours.strip(first, count),
        repeats=item.repeats, name=-1,
        body=item.kind is FoldKind.BODY, where="", disabled=False,
        block=block, differ=graph.differing(item) if repeated else 0,
    )  # fmt: skip


def _note(group: Group, count: int) -> str:
    nodes = counted(count, "node")
    return f"{nodes} · {printable(group.note)}"[:_NAME] if group.note else nodes


def _inner_title(title: str, above: str) -> str:
    """``title`` without what the title around it says: "attention" in "layers.0", and of
    "Net.layers.0-49" in "Net.layers.0-2499" the name with its numbers, "layers.0-49"."""
    if title.startswith(f"{above}."):
        return title.removeprefix(f"{above}.")
    stem, _, _ = title.rpartition(".")
    if stem and "," not in title and above.startswith(f"{stem}."):
        return title.removeprefix(f"{stem.rpartition('.')[0]}.")
    return title


def _state(graph: FoldedGraph, node: int) -> dict[str, Any]:
    """What a leaf's box says of its state: what became of the node, or that it is disabled."""
    if graph.union is not None:
        compared = graph.union.nodes[node]
        gone = compared.change is Change.REMOVED
        said = node_changes(compared) or compared.change.value
        same = compared.change is Change.SAME
        return {"disabled": gone} | ({} if same else {"note": said[:_LABEL]})
    row = graph.rows[node]
    if row.node.enabled is not False:
        return {}
    return {"disabled": True, "note": f"disabled · {work_name(row.node)}"[:_LABEL]}
