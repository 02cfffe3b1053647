"""A captured graph made ready for views: folded, with what views need in arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.analysis.step_comparison.eager_change import EagerCounterpart
from graphviz_dash.features.graph.diff.graph_union import GraphUnion
from graphviz_dash.features.graph.drawing.colours import ColourBy, NodeColours, node_colours
from graphviz_dash.features.graph.drawing.links import Edges
from graphviz_dash.features.graph.drawing.path import PathMarks, path_marks
from graphviz_dash.features.graph.folding.fold import FoldBy, fold
from graphviz_dash.features.graph.folding.repeats import RepeatFacts
from graphviz_dash.features.graph.folding.tree import Group, groups
from graphviz_dash.units import format_ns


@dataclass(frozen=True)
class FoldedGraph:
    """A graph made ready for views: built once, then any view of it is a matter of what is open.

    What a view needs of each node is kept in arrays by the order of the fold, so that no view
    walks over nodes or edges in Python.
    """

    whole: WholeGraph
    """The graph with all graphs inside its nodes."""
    root: Group
    """Its fold."""
    groups: dict[str, Group]
    """The groups of the fold, by id."""
    path: PathMarks
    """Its critical path, as far as it was measured."""
    union: GraphUnion | None = None
    """Where it is two graphs compared, these; None for one graph."""
    eager: Callable[[], Mapping[int, EagerCounterpart]] = dict
    """Gives by index of a node what that is to eager code; called when that is to be seen."""
    streams: Callable[[], Mapping[int, int]] = dict
    """Gives by index of a node the stream that it is planned on; called when that is to be seen."""
    complete: bool = True
    """Whether times and what follows from them are known."""
    _colours: dict[ColourBy, NodeColours] = field(default_factory=dict, compare=False, repr=False)
    """The colours that views have asked for."""
    repeats: dict[str, RepeatFacts] = field(default_factory=dict, compare=False, repr=False)
    """The facts of repeats that cards have asked for, by id."""
    _differing: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """How many blocks of a repeat are unlike most, by id."""

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
        count = self._differing.get(repeat.id)
        if count is None:
            shapes = (each.shape if isinstance(each, Group) else -1 for each in repeat.blocks)
            looks = Counter(shapes)
            count = self._differing[repeat.id] = len(repeat.blocks) - max(looks.values())
        return count

    def colours(self, by: ColourBy) -> NodeColours:
        """The colours of the nodes."""
        colours = self._colours.get(by)
        if colours is None:
            eager = self.eager() if by is ColourBy.EAGER else {}
            order = self.root.order.nodes
            streams = self.streams() if by is ColourBy.STREAM else {}
            colours = node_colours(by, self.rows, self.path, self.union, order, eager, streams)
            self._colours[by] = colours
        return colours


def folded(
    whole: WholeGraph,
    measured: MeasuredGraph | None = None,
    union: GraphUnion | None = None,
    eager: Callable[[], Mapping[int, EagerCounterpart]] = dict,
    by: FoldBy = FoldBy.ORDER,
    streams: Callable[[], Mapping[int, int]] = dict,
) -> FoldedGraph:
    """Folds a graph with all that it holds; ``measured`` tells its critical path, ``union``, whose
    whole it is, what changed, ``eager`` what the nodes are to eager code, ``by`` what the fold
    begins with, ``streams`` which stream each is planned on."""
    root = fold(whole, by)
    path = path_marks(whole, measured)
    return FoldedGraph(whole, root, groups(root), path, union, eager, streams)


def untimed(whole: WholeGraph, by: FoldBy) -> FoldedGraph:
    """Folds a graph whose times are not known yet; :func:`timed` adds them."""
    return replace(folded(whole, by=by), complete=False)


def timed(
    graph: FoldedGraph,
    whole: WholeGraph,
    measured: MeasuredGraph | None,
    eager: Callable[[], Mapping[int, EagerCounterpart]],
    streams: Callable[[], Mapping[int, int]],
) -> FoldedGraph:
    """An untimed graph with its times: ``whole`` has the same nodes with what was seen of them."""
    path = path_marks(whole, measured)
    return FoldedGraph(whole, graph.root, graph.groups, path, None, eager, streams)


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
