"""Folded graph prepared for views, with arrays of per-node data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from graphviz_dash.analysis.arrays import Ints, compute_offsets
from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.replay_faults import FaultState
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.analysis.step_comparison.eager_change import EagerCounterpart
from graphviz_dash.features.graph.diff.graph_union import GraphUnion
from graphviz_dash.features.graph.drawing.colours import ColourBy, NodeColours, compute_node_colours
from graphviz_dash.features.graph.drawing.links import Edges
from graphviz_dash.features.graph.drawing.path import PathMarks, build_path_marks
from graphviz_dash.features.graph.folding.fold import FoldCriterion, fold_graph
from graphviz_dash.features.graph.folding.repeats import RepeatFacts
from graphviz_dash.features.graph.folding.tree import FoldGroup, index_groups
from graphviz_dash.units import format_ns


@dataclass(frozen=True)
class FoldedGraph:
    """Folded graph prepared for views.

    It is built once; each view depends only on the open groups. Per-node arrays in fold order save
    iterating over nodes or edges in Python.
    """

    full_graph: ExpandedGraph
    root: FoldGroup
    """Root of the fold."""
    groups: dict[str, FoldGroup]
    path: PathMarks
    """Critical path, as far as measured."""
    union: GraphUnion | None = None
    """Compared pair of graphs; None for a single graph."""
    get_eager_counterparts: Callable[[], Mapping[int, EagerCounterpart]] = dict
    """Returns the eager counterpart of each node, by index."""
    get_streams: Callable[[], Mapping[int, int]] = dict
    """Returns the planned stream of each node, by index."""
    get_limit_shares: Callable[[], Mapping[int, float]] = dict
    """Returns the share of the hardware limit of each node with a known limit, by index."""
    get_fault_states: Callable[[], Mapping[int, FaultState]] = dict
    """Returns the state of each node by a check of replays, by index."""
    complete: bool = True
    """Whether times and derived data are available."""
    _colour_cache: dict[ColourBy, NodeColours] = field(
        default_factory=dict, compare=False, repr=False
    )
    repeats: dict[str, RepeatFacts] = field(default_factory=dict, compare=False, repr=False)
    _differing_counts: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def rows(self) -> tuple[NodeRow, ...]:
        """Row of each node, by position in the full graph."""
        return self.full_graph.table.rows

    @cached_property
    def edges(self) -> Edges:
        """Edges in fold order."""
        return Edges.from_graph(self.full_graph, self.root.order, self.path, self.union)

    @cached_property
    def times(self) -> GroupTimes:
        """Times of groups."""
        return GroupTimes(self.full_graph, self.root.order.nodes)

    @cached_property
    def critical(self) -> Ints:
        """Number of critical nodes before each leaf; zero if all nodes are critical."""
        marked = np.zeros(len(self.rows), dtype=np.bool_)
        if not self.path.is_line:
            marked[list(self.path.nodes)] = True
        return compute_offsets(marked[self.root.order.nodes])

    def count_differing_blocks(self, repeat: FoldGroup) -> int:
        """Count the blocks of a repeat that differ from most blocks."""
        count = self._differing_counts.get(repeat.id)
        if count is None:
            shapes = (
                block.shape if isinstance(block, FoldGroup) else -1 for block in repeat.blocks
            )
            shape_counts = Counter(shapes)
            count = self._differing_counts[repeat.id] = len(repeat.blocks) - max(
                shape_counts.values()
            )
        return count

    def get_colours(self, by: ColourBy) -> NodeColours:
        """Compute the colours of the nodes."""
        colours = self._colour_cache.get(by)
        if colours is None:
            eager = self.get_eager_counterparts() if by is ColourBy.EAGER else {}
            order = self.root.order.nodes
            streams = self.get_streams() if by is ColourBy.STREAM else {}
            shares = self.get_limit_shares() if by is ColourBy.LIMIT else {}
            faults = self.get_fault_states() if by is ColourBy.FAULT else {}
            colours = compute_node_colours(
                by, self.rows, self.path, self.union, order, eager, streams, shares, faults
            )
            self._colour_cache[by] = colours
        return colours


def build_folded_graph(
    full_graph: ExpandedGraph,
    measured: MeasuredGraph | None = None,
    union: GraphUnion | None = None,
    eager: Callable[[], Mapping[int, EagerCounterpart]] = dict,
    by: FoldCriterion = FoldCriterion.ORDER,
    streams: Callable[[], Mapping[int, int]] = dict,
    faults: Callable[[], Mapping[int, FaultState]] = dict,
) -> FoldedGraph:
    """Fold a graph with its nested graphs.

    ``measured`` provides the critical path, ``union`` the changes, ``by`` the first fold criterion.
    Callbacks run on demand.
    """
    root = fold_graph(full_graph, by)
    path = build_path_marks(full_graph, measured)
    return FoldedGraph(
        full_graph, root, index_groups(root), path, union, eager, streams, get_fault_states=faults
    )


def fold_without_times(full_graph: ExpandedGraph, by: FoldCriterion) -> FoldedGraph:
    """Fold a graph without times; :func:`add_times` adds them."""
    return replace(build_folded_graph(full_graph, by=by), complete=False)


def add_times(
    graph: FoldedGraph,
    full_graph: ExpandedGraph,
    measured: MeasuredGraph | None,
    eager: Callable[[], Mapping[int, EagerCounterpart]],
    streams: Callable[[], Mapping[int, int]],
    limit_shares: Callable[[], Mapping[int, float]] = dict,
    faults: Callable[[], Mapping[int, FaultState]] = dict,
) -> FoldedGraph:
    """Add times to an untimed graph; ``full_graph`` has the same nodes."""
    path = build_path_marks(full_graph, measured)
    return FoldedGraph(
        full_graph, graph.root, graph.groups, path, None, eager, streams, limit_shares, faults
    )


class GroupTimes:
    """GPU time per replay of groups, from prefix sums over the leaves in fold order."""

    def __init__(self, full_graph: ExpandedGraph, order: Ints) -> None:
        rows = full_graph.table.rows
        self._replays = full_graph.table.replays
        count = len(rows)
        samples = np.fromiter((row.times.samples for row in rows), np.int64, count)
        # Medians are multiples of 0.5 ns, so twice the work is an integer and its sums are exact.
        medians = np.fromiter((row.times.median_ns or 0.0 for row in rows), np.float64, count)
        twice = np.rint(2.0 * medians).astype(np.int64) * samples
        self._samples = samples[order]
        self._twice = compute_offsets(twice[order])
        self._seen = compute_offsets(self._samples > 0)
        optional = np.zeros(count, dtype=np.bool_)
        optional[list(full_graph.optional_nodes)] = True
        self._optional = compute_offsets(optional[order])

    def format_time(self, first: int, count: int) -> str:
        """Format the time of ``count`` leaves from ``first``; empty if none was measured.

        A conditional body counts the replays in which it runs; with other nodes in the group, it is
        weighted by that share.
        """
        end = first + count
        if self._seen[end] == self._seen[first]:
            return ""
        replays = self._replays
        if self._optional[end] - self._optional[first] == count:
            replays = int(self._samples[first:end].max())
        return format_ns(int(self._twice[end] - self._twice[first]) / 2 / replays)
