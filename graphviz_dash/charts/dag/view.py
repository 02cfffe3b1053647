"""What the DAG component draws: boxes and links of a folded graph, coloured, within a budget.

A view is a few hundred boxes whatever the size of the graph: groups are unfolded from the outside
in while the budget lasts, and then as the reader asks.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.diff.graph_diff import Change
from graphviz_dash.analysis.diff.graph_union import GraphUnion
from graphviz_dash.analysis.fold.fold import FoldBy, fold
from graphviz_dash.analysis.fold.repeats import RepeatFacts
from graphviz_dash.analysis.fold.tree import (
    FoldKind,
    Group,
    Leaf,
    ancestors,
    block_of,
    groups,
    mirrored,
)
from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.analysis.step.eager_change import EagerCounterpart
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.charts.dag.colours import ColourBy, LegendEntry, NodeColours, node_colours
from graphviz_dash.charts.dag.layout import ALL, Placed, Shown, place, shown_children
from graphviz_dash.charts.dag.links import Edges, Link, links
from graphviz_dash.charts.dag.node_note import node_note
from graphviz_dash.charts.dag.path import PathMarks, path_marks
from graphviz_dash.errors import printable
from graphviz_dash.model.graph import KernelParams
from graphviz_dash.narrative.graphs import node_changes
from graphviz_dash.units import counted, format_ns

__all__ = [
    "MOST_BOXES",
    "Box",
    "ColourBy",
    "DagView",
    "FoldedGraph",
    "LegendEntry",
    "Link",
    "dag_view",
    "folded",
    "search",
    "timed",
    "untimed",
]

MOST_BOXES: Final = 200
"""Boxes of a view, unfolded groups included."""

_READABLE: Final = 0.6
"""Zoom at which labels are read with ease: groups are unfolded without being asked while the whole
still fits the canvas at this zoom."""

_SMALL: Final = 120
"""A graph of at most so many nodes is unfolded whole, if that can be read at all."""

_LEAST_READABLE: Final = 0.45
_CANVAS_WIDTH: Final = 800.0
"""Width of the canvas, in pixels, that readability is judged for."""

_LABEL: Final = 44
_NAME: Final = 160


class Box(msgspec.Struct, frozen=True, array_like=True):
    """A leaf (``node`` >= 0) or a group. ``colour`` and the entries of ``strip`` index the legend;
    ``open`` says that a group is unfolded. ``node`` is the place of the node in the whole graph.
    ``note`` is the operator of a leaf, what a group is. ``name`` indexes the view's ``names``, -1
    where the label says all. ``body``: it is a graph inside a node. ``where`` is how a leaf's node
    is spoken of, "node 3 of graph-0.7", empty for "node" and its place. ``off``: the leaf does not
    run, because its executable has it switched off or because it is gone. ``critical``: something
    in it is on the critical path, and something of the graph is not. The box holds the ``count``
    leaves from ``first`` on, in the order of the fold. ``block`` is the number of the block that an
    unfolded repeat shows for all of them, -1 where it shows all or is none; ``differ`` counts
    blocks that are not like most."""

    id: str
    x: int
    y: int
    width: int
    height: int
    node: int
    open: bool
    label: str
    note: str
    time: str
    colour: int
    strip: list[int]
    repeats: int
    name: int
    body: bool
    where: str
    off: bool
    critical: bool
    first: int
    count: int
    block: int
    differ: int


class DagView(msgspec.Struct, frozen=True):
    """All that is drawn. ``expanded`` are the ids of the unfolded groups; ``shown`` the blocks that
    stand for all of a repeat (ALL: none does), by its id, where it is not the first; ``note`` what
    is said of how the graph is folded, where there is anything to say; ``complete``: what follows
    from times is in it."""

    nodes: int
    edges: int
    width: int
    height: int
    boxes: list[Box]
    names: list[str]
    links: list[Link]
    legend: list[LegendEntry]
    expanded: list[str]
    shown: dict[str, int]
    focus: str | None
    full: bool
    note: str
    complete: bool


@dataclass(frozen=True)
class FoldedGraph:
    """A graph made ready for views: built once, then any view of it is a matter of what is open.
    ``union`` is there where it is two graphs compared; ``eager`` tells what the nodes are to eager
    code, and is asked when that is to be seen; ``complete`` says that times and what follows from
    them are known; ``repeats`` keeps what was found out about repeats.

    What a view needs of each node is kept in arrays by the order of the fold, so that no view
    walks over nodes or edges in Python.
    """

    whole: WholeGraph
    root: Group
    groups: dict[str, Group]
    path: PathMarks
    union: GraphUnion | None = None
    eager: Callable[[], Mapping[int, EagerCounterpart]] = dict
    complete: bool = True
    _colours: dict[ColourBy, NodeColours] = field(default_factory=dict, compare=False, repr=False)
    repeats: dict[str, RepeatFacts] = field(default_factory=dict, compare=False, repr=False)
    _differing: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def rows(self) -> tuple[NodeRow, ...]:
        """A row for each place of the whole graph."""
        return self.whole.table.rows

    @cached_property
    def edges(self) -> Edges:
        """The edges by the order of the fold."""
        return Edges.of(self.whole, self.root.order, self.path, self.union)

    @cached_property
    def times(self) -> GroupTimes:
        """The times of groups."""
        return GroupTimes(self.whole, self.root.order.nodes)

    @cached_property
    def critical(self) -> Ints:
        """How many nodes before each leaf are on the critical path; none if all are."""
        marked = np.zeros(len(self.rows), dtype=np.bool_)
        if not self.path.is_line:
            marked[list(self.path.nodes)] = True
        return _sums(marked[self.root.order.nodes])

    def differing(self, repeat: Group) -> int:
        """How many blocks of a repeat are not like most of them."""
        known = self._differing.get(repeat.id)
        if known is None:
            looks = Counter(one.shape if isinstance(one, Group) else -1 for one in repeat.blocks)
            known = self._differing[repeat.id] = len(repeat.blocks) - max(looks.values())
        return known

    def colours(self, by: ColourBy) -> NodeColours:
        """The colours of the nodes."""
        known = self._colours.get(by)
        if known is None:
            eager = self.eager() if by is ColourBy.EAGER else {}
            known = node_colours(by, self.rows, self.path, self.union, self.root.order.nodes, eager)
            self._colours[by] = known
        return known


def folded(
    whole: WholeGraph,
    measured: MeasuredGraph | None = None,
    union: GraphUnion | None = None,
    eager: Callable[[], Mapping[int, EagerCounterpart]] = dict,
    by: FoldBy = FoldBy.ORDER,
) -> FoldedGraph:
    """Folds a graph with all that it holds; ``measured`` tells its critical path, ``union``, whose
    whole it is, what changed, ``eager`` what the nodes are to eager code, ``by`` what the fold
    begins with."""
    root = fold(whole, by)
    return FoldedGraph(whole, root, groups(root), path_marks(whole, measured), union, eager)


def untimed(whole: WholeGraph, by: FoldBy) -> FoldedGraph:
    """Folds a graph whose times are not known yet; :func:`timed` adds them."""
    return replace(folded(whole, by=by), complete=False)


def timed(
    graph: FoldedGraph,
    whole: WholeGraph,
    measured: MeasuredGraph | None,
    eager: Callable[[], Mapping[int, EagerCounterpart]],
) -> FoldedGraph:
    """An untimed graph with its times: ``whole`` has the same nodes with what was seen of them."""
    return FoldedGraph(whole, graph.root, graph.groups, path_marks(whole, measured), None, eager)


def dag_view(
    graph: FoldedGraph,
    colour_by: ColourBy,
    ratio: float,
    expanded: Iterable[str] | None = None,
    focus: int | None = None,
    first: str | None = None,
    shown: Shown | None = None,
) -> DagView:
    """The view of ``graph``.

    Args:
        ratio: width over height of the canvas.
        expanded: ids of the groups to unfold; None for what fits into the budget. Unknown ids are
            passed over, and a group inside a folded one stays unseen.
        focus: the place of a node that must be visible: the groups around it are unfolded.
        first: the id of a group that is unfolded before the others, which fold if they must.
        shown: the number of the block that a repeat shows for all, by its id, or ALL; the first
            unless told. What is unfolded in another block is unfolded in that one.
    """
    blocks = {ident: at for ident, at in (shown or {}).items() if ident in graph.groups}
    must = {graph.root.id}
    if focus is not None:
        must |= _to_be_seen(graph, graph.root.order.at[focus], blocks)
    if first in graph.groups:
        must |= _to_be_seen(graph, graph.groups[first].first, blocks, first) | {first}
    wanted = (
        _automatic(graph.root, ratio)
        if expanded is None
        else mirrored(graph.groups, set(expanded) & set(graph.groups), blocks)
    )
    kept, full = _within_budget(graph.root, wanted | must, must, blocks)
    placed = place(graph.root, frozenset(kept), ratio, blocks)
    colours = graph.colours(colour_by)
    boxes: list[Box] = []
    names: dict[str, int] = {}
    parents: dict[str, Placed] = {}
    flat = list(_visible(placed, parents))
    for one in flat:
        above = parents[one.fold.id].fold
        title = above.title if isinstance(above, Group) else ""
        boxes.append(_box(graph, one, colours, title, names, blocks))
    return DagView(
        nodes=len(graph.rows),
        edges=len(graph.whole.table.graph.edges),
        width=round(placed.width),
        height=round(placed.height),
        boxes=boxes,
        names=list(names),
        links=links(graph.edges, len(graph.rows), flat, parents),
        legend=colours.legend,
        expanded=sorted(kept),
        shown={ident: at for ident, at in sorted(blocks.items()) if at and ident in kept},
        focus=None if focus is None else f"n{focus}",
        full=full,
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


# -- what is open --------------------------------------------------------------------------------


def _automatic(root: Group, ratio: float) -> set[str]:
    """Groups to unfold without being asked: from the outside in, while all of it can be read."""
    order = [root.id]
    queue = deque((one, root) for one in root.children)
    while queue:
        group, above = queue.popleft()
        if not isinstance(group, Group) or len(order) >= MOST_BOXES:
            continue
        # Single nodes say little more unfolded than their strip does, unless the row of them
        # stands for many.
        single = group.kind is FoldKind.REPEAT and isinstance(group.blocks[0], Leaf)
        if not single and (group.kind is not FoldKind.RUN or above.kind is FoldKind.REPEAT):
            order.append(group.id)
            queue.extend((one, group) for one in shown_children(group, {}))
    if root.count <= _SMALL:
        everything = set(groups(root))
        if _zoom(root, everything, ratio) >= _LEAST_READABLE:
            return everything
    # The more is open the smaller it gets, so the last one that can still be read is found by
    # halving.
    low, high = 1, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if _zoom(root, set(order[:middle]), ratio) >= _READABLE:
            low = middle
        else:
            high = middle - 1
    return set(order[:low])


def _zoom(root: Group, opened: set[str], ratio: float) -> float:
    """The zoom at which the whole fits the canvas."""
    placed = place(root, frozenset(opened), ratio, {})
    return min(_CANVAS_WIDTH / placed.width, _CANVAS_WIDTH / ratio / placed.height)


def _to_be_seen(
    graph: FoldedGraph, at: int, blocks: dict[str, int], group: str | None = None
) -> set[str]:
    """The groups to unfold so that leaf number ``at`` is seen, or ``group``, which begins there;
    repeats are set to show the block that it is in."""
    around = ancestors(graph.root, int(graph.root.order.nodes[at]))
    if group is not None:
        around = tuple(one for one in around if group.startswith(f"{one}."))
    for ident in around:
        found = graph.groups[ident]
        if found.kind is FoldKind.REPEAT and blocks.get(ident) != ALL:
            blocks[ident] = block_of(found, at)
    return set(around)


def _within_budget(
    root: Group, wanted: set[str], must: set[str], blocks: Shown
) -> tuple[set[str], bool]:
    """Of ``wanted`` what the budget allows, those that ``must`` be open first, the outer before the
    inner; and whether something had to stay folded."""
    kept: set[str] = set()
    shown = 0
    full = False
    queue = deque([root])
    later: deque[Group] = deque()
    while queue or later:
        group = queue.popleft() if queue else later.popleft()
        children = shown_children(group, blocks)
        if group.id not in must and shown + len(children) > MOST_BOXES:
            full = True
            continue
        shown += len(children)
        kept.add(group.id)
        for child in children:
            if isinstance(child, Group) and child.id in wanted:
                (queue if child.id in must else later).append(child)
    return kept, full


def _visible(placed: Placed, parents: dict[str, Placed]) -> Iterable[Placed]:
    for one in placed.inside:
        parents[one.fold.id] = placed
        yield one
        if one.open:
            yield from _visible(one, parents)


# -- boxes ---------------------------------------------------------------------------------------


class GroupTimes:
    """How long the nodes of a group work in a replay, added up beforehand: sums over the leaves
    before each leaf, in the order of the fold."""

    def __init__(self, whole: WholeGraph, order: Ints) -> None:
        rows = whole.table.rows
        self._replays = whole.table.replays
        count = len(rows)
        samples = np.fromiter((row.times.samples for row in rows), np.int64, count)
        # Medians are halves of ns, so that twice the work is whole and its sums are exact.
        medians = np.fromiter((row.times.median_ns or 0.0 for row in rows), np.float64, count)
        twice = np.rint(2.0 * medians).astype(np.int64) * samples
        self._samples = samples[order]
        self._twice = _sums(twice[order])
        self._seen = _sums(self._samples > 0)
        optional = np.zeros(count, dtype=np.bool_)
        optional[list(whole.inside_body)] = True
        self._optional = _sums(optional[order])

    def text(self, first: int, count: int) -> str:
        """The time of ``count`` leaves from ``first`` on; empty where nothing was seen. A body of a
        conditional is summed for when it runs; where other nodes are in the group too, by the share
        of replays in which it does."""
        end = first + count
        if self._seen[end] == self._seen[first]:
            return ""
        whole = self._replays
        if self._optional[end] - self._optional[first] == count:
            whole = int(self._samples[first:end].max())
        return format_ns(int(self._twice[end] - self._twice[first]) / 2 / whole)


def _sums(values: npt.ArrayLike) -> Ints:
    """What the values before each place come to, and all of them."""
    return np.concatenate(([0], np.cumsum(values, dtype=np.int64)))


def _box(
    graph: FoldedGraph,
    one: Placed,
    colours: NodeColours,
    above: str,
    names: dict[str, int],
    blocks: Shown,
) -> Box:
    """The box of a leaf or group; ``above`` is the title of the group around it, which a title
    need not say again. Whole names go into ``names``, once each."""
    item = one.fold
    first = int(graph.root.order.at[item.node]) if isinstance(item, Leaf) else item.first
    count = 1 if isinstance(item, Leaf) else item.count
    where: dict[str, Any] = {
        "x": round(one.x),
        "y": round(one.y),
        "width": round(one.width),
        "height": round(one.height),
        "critical": bool(graph.critical[first + count] > graph.critical[first]),
        "first": first,
        "count": count,
    }
    if isinstance(item, Leaf):
        row = graph.rows[item.node]
        label = printable(row.node.label)
        short = short_name(label) if isinstance(row.node.params, KernelParams) else label
        whole = -1 if label == short[:_LABEL] else names.setdefault(label[:_NAME], len(names))
        owner, index = graph.whole.owner[item.node]
        spoken = "" if owner == graph.whole.table.graph.id else f"node {index} of {owner}"
        state: dict[str, Any] = {
            "note": printable(row.origin.op or node_note(row.node))[:_LABEL], "off": False,
        } | _state(graph, item.node)  # fmt: skip
        return Box(
            id=item.id, **where, node=item.node, open=False, label=short[:_LABEL],
            time=format_ns(row.times.median_ns) if graph.complete else "",
            colour=colours.of_leaf(first), strip=[], repeats=0, name=whole, body=False,
            where=printable(spoken), block=-1, differ=0, **state,
        )  # fmt: skip
    title = printable(_inner_title(item.title, above))
    repeated = item.kind is FoldKind.REPEAT
    block = blocks.get(item.id, 0) if repeated and one.open else ALL
    return Box(
        id=item.id, **where, node=-1, open=one.open, label=title[:_LABEL],
        note=_note(item, count),
        time=graph.times.text(first, count), colour=colours.most(first, count),
        strip=[] if one.open else colours.strip(first, count),
        repeats=item.repeats, name=-1,
        body=item.kind is FoldKind.BODY, where="", off=False,
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


def _state(graph: FoldedGraph, place: int) -> dict[str, Any]:
    """What a leaf's box says of its state: what became of the node, or that it is switched off."""
    if graph.union is not None:
        node = graph.union.nodes[place]
        gone = node.change is Change.REMOVED
        said = node_changes(node) or node.change.value
        return {"off": gone} if node.change is Change.SAME else {"off": gone, "note": said[:_LABEL]}
    row = graph.rows[place]
    if row.node.enabled is not False:
        return {}
    return {"off": True, "note": f"switched off · {printable(row.node.kind.value)}"}
