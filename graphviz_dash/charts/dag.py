"""What the DAG component draws: boxes and links of a folded graph, coloured, within a budget.

A view is a few hundred boxes whatever the size of the graph: groups are unfolded from the outside
in while the budget lasts, and then as the reader asks.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

import msgspec

from graphviz_dash.analysis.categories import Category
from graphviz_dash.analysis.fold import FoldKind, Group, Leaf, ancestors, fold, groups
from graphviz_dash.analysis.graph_diff import Change
from graphviz_dash.analysis.graph_union import GraphUnion, what_differs
from graphviz_dash.analysis.measured_graph import MeasuredGraph
from graphviz_dash.analysis.names import short_name
from graphviz_dash.analysis.nodes import NodeRow
from graphviz_dash.analysis.whole import WholeGraph
from graphviz_dash.charts.dag_layout import GAP, GUTTER, Placed, place
from graphviz_dash.charts.dag_path import NOT_MEASURED, SLACK_LABELS, PathMarks, path_marks
from graphviz_dash.charts.node_note import node_note
from graphviz_dash.charts.palette import CATEGORY, CHANGE, KIND, MODULES, PHASE, SLACK, TIME, Shade
from graphviz_dash.errors import printable
from graphviz_dash.model.graph import EdgeType, GraphEdge, KernelParams, NodeKind
from graphviz_dash.units import format_count, format_ns

MOST_BOXES: Final = 220
"""Boxes of a view, unfolded groups included."""

_READABLE: Final = 0.6
"""Zoom at which labels are read with ease: groups are unfolded without being asked while the whole
still fits the canvas at this zoom."""

_SMALL: Final = 120
"""A graph of at most so many nodes is unfolded whole, if that can be read at all."""

_LEAST_READABLE: Final = 0.45
_CANVAS_WIDTH: Final = 800.0
"""Width of the canvas, in pixels, that readability is judged for."""

_STRIP: Final = 28
_LABEL: Final = 44
_NAME: Final = 160


class ColourBy(StrEnum):
    """What the colour of a box tells."""

    CATEGORY = "category"
    KIND = "kind"
    TIME = "time"
    MODULE = "module"
    PHASE = "phase"
    SLACK = "slack"
    CHANGE = "change"


class Box(msgspec.Struct, frozen=True, array_like=True):
    """A leaf (``node`` >= 0) or a group. ``colour`` and the entries of ``strip`` index the legend;
    ``open`` says that a group is unfolded. ``node`` is the place of the node in the whole graph.
    ``note`` is the operator of a leaf, what a group is. ``name`` indexes the view's ``names``, -1
    where the label says all. ``body``: it is a graph inside a node. ``where`` is how a leaf's node
    is spoken of, "node 3 of graph-0.7". ``off``: the leaf does not run, because its executable has
    it switched off or because it is gone. ``critical``: something in it is on the critical path,
    and something of the graph is not."""

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


class Link(msgspec.Struct, frozen=True, array_like=True):
    """A dependency between two boxes: a polyline as x, y, x, y, ...; ``dashed`` for a programmatic
    one; ``text`` is the edge's data where it is not the default; ``count`` edges run in it, none in
    the link from a node to a graph inside it. ``critical`` as for a box."""

    source: str
    target: str
    points: list[int]
    dashed: bool
    text: str
    count: int
    critical: bool


class LegendEntry(msgspec.Struct, frozen=True):
    """A colour and what it means."""

    label: str
    light: str
    dark: str


class DagView(msgspec.Struct, frozen=True):
    """All that is drawn. ``expanded`` are the ids of the unfolded groups."""

    nodes: int
    edges: int
    width: int
    height: int
    boxes: list[Box]
    names: list[str]
    links: list[Link]
    legend: list[LegendEntry]
    expanded: list[str]
    focus: str | None
    full: bool


@dataclass(frozen=True)
class FoldedGraph:
    """A graph made ready for views: built once, then any view of it is a matter of what is open.
    ``union`` is there where it is two graphs compared."""

    whole: WholeGraph
    root: Group
    groups: dict[str, Group]
    path: PathMarks
    union: GraphUnion | None = None

    @property
    def rows(self) -> tuple[NodeRow, ...]:
        """A row for each place of the whole graph."""
        return self.whole.table.rows


def folded(
    whole: WholeGraph, measured: MeasuredGraph | None = None, union: GraphUnion | None = None
) -> FoldedGraph:
    """Folds a graph with all that it holds; ``measured`` tells its critical path, ``union``, whose
    whole it is, what changed."""
    root = fold(whole)
    return FoldedGraph(whole, root, groups(root), path_marks(whole, measured), union)


def dag_view(
    graph: FoldedGraph,
    colour_by: ColourBy,
    ratio: float,
    expanded: Iterable[str] | None = None,
    focus: int | None = None,
) -> DagView:
    """The view of ``graph``.

    Args:
        ratio: width over height of the canvas.
        expanded: ids of the groups to unfold; None for what fits into the budget. Unknown ids are
            passed over, and a group inside a folded one stays unseen.
        focus: the place of a node that must be visible: the groups around it are unfolded.
    """
    wanted = (
        _automatic(graph.root, ratio) if expanded is None else set(expanded) & set(graph.groups)
    )
    if focus is not None:
        wanted |= set(ancestors(graph.root, focus))
    wanted.add(graph.root.id)
    kept, full = _within_budget(graph.root, wanted, focus)
    placed = place(graph.root, frozenset(kept), ratio)
    colours = _Colours(graph, colour_by)
    times = _GroupTimes(graph.whole)
    boxes: list[Box] = []
    names: dict[str, int] = {}
    parents: dict[str, Placed] = {}
    flat = list(_visible(placed, parents))
    owner, root = graph.whole.owner, graph.whole.table.graph.id
    for one in flat:
        above = parents[one.fold.id].fold
        title = above.title if isinstance(above, Group) else ""
        box = _box(one, graph.rows, colours, times, title, names)
        if box.node >= 0:
            name, index = owner[box.node]
            where = f"node {index}" if name == root else f"node {index} of {name}"
            box = msgspec.structs.replace(box, where=printable(where), **_state(graph, box.node))
        if not graph.path.is_line and not graph.path.nodes.isdisjoint(one.fold.nodes):
            box = msgspec.structs.replace(box, critical=True)
        boxes.append(box)
    return DagView(
        nodes=len(graph.rows),
        edges=len(graph.whole.table.graph.edges),
        width=round(placed.width),
        height=round(placed.height),
        boxes=boxes,
        names=list(names),
        links=_links(graph, flat, parents),
        legend=colours.legend(),
        expanded=sorted(kept),
        focus=None if focus is None else f"n{focus}",
        full=full,
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
    queue = deque(root.children)
    while queue:
        group = queue.popleft()
        # A long row of single nodes says little more unfolded than its strip does.
        if isinstance(group, Group) and group.kind is not FoldKind.RUN and len(order) < MOST_BOXES:
            order.append(group.id)
            queue.extend(group.children)
    if len(root.nodes) <= _SMALL:
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
    placed = place(root, frozenset(opened), ratio)
    return min(_CANVAS_WIDTH / placed.width, _CANVAS_WIDTH / ratio / placed.height)


def _within_budget(root: Group, wanted: set[str], focus: int | None) -> tuple[set[str], bool]:
    """Of ``wanted`` what the budget allows, what leads to ``focus`` first, the outer before the
    inner; and whether something had to stay folded."""
    must = set(ancestors(root, focus)) if focus is not None else {root.id}
    kept: set[str] = set()
    shown = 0
    full = False
    queue = deque([root])
    later: deque[Group] = deque()
    while queue or later:
        group = queue.popleft() if queue else later.popleft()
        if group.id not in must and shown + len(group.children) > MOST_BOXES:
            full = True
            continue
        shown += len(group.children)
        kept.add(group.id)
        for child in group.children:
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


class _Colours:
    """The legend of a view, and the place in it of each node."""

    def __init__(self, graph: FoldedGraph, by: ColourBy) -> None:
        rows = graph.rows
        match by:
            case ColourBy.CATEGORY:
                shades: dict[str, Shade] = {one.value: CATEGORY[one] for one in Category}
                keys = [row.category.value for row in rows]
            case ColourBy.KIND:
                shades = {one.value: KIND[one] for one in NodeKind}
                keys = [row.node.kind.value for row in rows]
            case ColourBy.PHASE:
                shades = dict(PHASE)
                keys = [row.origin.phase for row in rows]
            case ColourBy.MODULE:
                keys = _module_keys(rows)
                known = [key for key, _ in Counter(keys).most_common() if key != _NO_MODULE]
                shades = dict(zip(known, MODULES, strict=False)) | {
                    _NO_MODULE: CATEGORY[Category.OTHER]
                }
                keys = [key if key in shades else _NO_MODULE for key in keys]
            case ColourBy.TIME:
                shades = {label: shade for (label, _), shade in zip(_TIMES, TIME, strict=True)}
                shades[_UNSEEN] = CATEGORY[Category.OTHER]
                keys = [_time_key(row) for row in rows]
            case ColourBy.CHANGE:
                shades = {change.value: shade for change, shade in CHANGE.items()}
                nodes = graph.union.nodes if graph.union else ()
                keys = [node.change.value for node in nodes] or [Change.SAME.value] * len(rows)
            case ColourBy.SLACK:
                labels = [label for label, _ in SLACK_LABELS]
                shades = dict(zip(labels, SLACK, strict=True))
                shades[NOT_MEASURED] = CATEGORY[Category.OTHER]
                keys = [graph.path.label(place) for place in range(len(rows))]
        present = set(keys)
        self._shades = {label: shade for label, shade in shades.items() if label in present}
        self._order = list(self._shades)
        self.of_node = [self._order.index(key) for key in keys]

    def legend(self) -> list[LegendEntry]:
        return [
            LegendEntry(printable(label), shade.light, shade.dark)
            for label, shade in self._shades.items()
        ]

    def most(self, nodes: tuple[int, ...]) -> int:
        # A group with a change in it is not grey because most of it is the same.
        told = [n for n in nodes if self._order[self.of_node[n]] != Change.SAME.value]
        nodes = tuple(told) or nodes
        return Counter(self.of_node[node] for node in nodes).most_common(1)[0][0]

    def strip(self, nodes: tuple[int, ...]) -> list[int]:
        """Colours of nodes evenly spread over a group, in order."""
        count = min(_STRIP, len(nodes))
        return [self.of_node[nodes[place * len(nodes) // count]] for place in range(count)]


_NO_MODULE: Final = "other or no module"
_UNSEEN: Final = "not seen"
_TIMES: Final = (
    ("under 2 us", 2_000.0),
    ("2 to 5 us", 5_000.0),
    ("5 to 20 us", 20_000.0),
    ("20 to 100 us", 100_000.0),
    ("100 us and more", float("inf")),
)


def _time_key(row: NodeRow) -> str:
    median = row.times.median_ns
    if median is None:
        return _UNSEEN
    return next(label for label, limit in _TIMES if median < limit)


def _module_keys(rows: tuple[NodeRow, ...]) -> list[str]:
    """The first parts of module paths that tell modules apart: "Transformer.layers.0"."""
    paths = [(row.origin.module or "").split(".") for row in rows]
    depth = 2
    while depth < 4 and len({tuple(path[:depth]) for path in paths if path != [""]}) < 3:
        depth += 1
    return [".".join(path[:depth]) or _NO_MODULE for path in paths]


class _GroupTimes:
    """How long the nodes of a group work in a replay, added up."""

    def __init__(self, whole: WholeGraph) -> None:
        self._rows = whole.table.rows
        self._replays = whole.table.replays
        self._optional = whole.inside_body

    def text(self, nodes: tuple[int, ...]) -> str:
        """Empty where nothing was seen. A body of a conditional is summed for when it runs; where
        other nodes are in the group too, by the share of replays in which it does."""
        rows = [self._rows[node] for node in nodes if self._rows[node].times.samples]
        if not rows:
            return ""
        whole = self._replays
        if all(node in self._optional for node in nodes):
            whole = max(row.times.samples for row in rows)
        shares = ((row.times.median_ns or 0.0) * row.times.samples / whole for row in rows)
        return format_ns(sum(shares))


def _box(
    one: Placed,
    rows: tuple[NodeRow, ...],
    colours: _Colours,
    times: _GroupTimes,
    above: str,
    names: dict[str, int],
) -> Box:
    """The box of a leaf or group; ``above`` is the title of the group around it, which a title
    need not say again. Whole names go into ``names``, once each."""
    item = one.fold
    where: dict[str, Any] = {
        "x": round(one.x),
        "y": round(one.y),
        "width": round(one.width),
        "height": round(one.height),
    }
    if isinstance(item, Leaf):
        row = rows[item.node]
        label = printable(row.node.label)
        short = short_name(label) if isinstance(row.node.params, KernelParams) else label
        whole = -1 if label == short[:_LABEL] else names.setdefault(label[:_NAME], len(names))
        return Box(
            id=item.id, **where, node=item.node, open=False,
            label=short[:_LABEL], note=printable(row.origin.op or node_note(row.node))[:_LABEL],
            time=format_ns(row.times.median_ns), colour=colours.of_node[item.node], strip=[],
            repeats=0, name=whole, body=False, where="", off=False, critical=False,
        )  # fmt: skip
    count = format_count(len(item.nodes))
    title = printable(item.title.removeprefix(f"{above}."))
    return Box(
        id=item.id, **where, node=-1, open=one.open, label=title[:_LABEL],
        note=f"{count} nodes" if len(item.nodes) != 1 else "1 node",
        time=times.text(item.nodes),
        colour=colours.most(item.nodes), strip=[] if one.open else colours.strip(item.nodes),
        repeats=len(item.children) if item.kind is FoldKind.REPEAT else 0, name=-1,
        body=item.kind is FoldKind.BODY, where="", off=False, critical=False,
    )  # fmt: skip


def _state(graph: FoldedGraph, place: int) -> dict[str, Any]:
    """What a leaf's box says of its state: what became of the node, or that it is switched off."""
    if graph.union is not None:
        node = graph.union.nodes[place]
        gone = node.change is Change.REMOVED
        said = what_differs(node) or node.change.value
        return {"off": gone} if node.change is Change.SAME else {"off": gone, "note": said[:_LABEL]}
    row = graph.rows[place]
    if row.node.enabled is not False:
        return {}
    return {"off": True, "note": f"switched off · {printable(row.node.kind.value)}"}


# -- links ---------------------------------------------------------------------------------------


def _links(graph: FoldedGraph, flat: list[Placed], parents: dict[str, Placed]) -> list[Link]:
    """One link for all edges between two visible boxes."""
    box_of: dict[int, Placed] = {}
    held: list[tuple[Placed, Placed]] = []
    for one in flat:
        if not one.open:
            for node in one.fold.nodes:
                box_of.setdefault(node, one)
        elif isinstance(one.fold, Group) and one.fold.kind is FoldKind.HOLDER:
            # What comes after the node comes after what it holds: its edges end at the group.
            holder, *bodies = one.inside
            box_of[holder.fold.nodes[0]] = one
            held += [(holder, body) for body in bodies]
    between: dict[tuple[str, str], list[GraphEdge]] = {}
    for edge in graph.whole.table.graph.edges:
        source, target = box_of[edge.source].fold.id, box_of[edge.target].fold.id
        if source != target:
            between.setdefault((source, target), []).append(edge)
    places = {one.fold.id: one for one in flat}
    inward = [
        Link(
            holder.fold.id,
            body.fold.id,
            [round(value) for value in _route(holder, body, parents)],
            False,
            "",
            0,
            False,
        )
        for holder, body in held
    ]
    return inward + [
        Link(
            source,
            target,
            [round(value) for value in _route(places[source], places[target], parents)],
            all(edge.type is EdgeType.PROGRAMMATIC for edge in edges),
            _edge_text(edges, graph.union),
            len(edges),
            not graph.path.is_line
            and any((edge.source, edge.target) in graph.path.edges for edge in edges),
        )
        for (source, target), edges in between.items()
    ]


def _edge_text(edges: list[GraphEdge], union: GraphUnion | None) -> str:
    known = set() if union is None else {union.edges.get((e.source, e.target)) for e in edges}
    texts = {change.value for change in (Change.ADDED, Change.CHANGED) if change in known}
    texts |= {
        f"{edge.type.value}, port {edge.from_port} to {edge.to_port}"
        for edge in edges
        if edge.type is not EdgeType.FULL or edge.from_port or edge.to_port
    }
    return "; ".join(sorted(texts))


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
