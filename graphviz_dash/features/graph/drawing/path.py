"""The critical path and slack of a measured graph, for the graph that is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from msgspec import Struct, field

from graphviz_dash.analysis.nodes.measured_graph import NOT_SEEN, MeasuredGraph
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.model.graph import GraphEdge

ON_PATH: Final = "on the critical path"
NO_SLACK: Final = "slack under 5 µs"
NOT_MEASURED: Final = "not measured"
SLACK_LABELS: Final = (
    (ON_PATH, -1),
    (NO_SLACK, 5_000),
    ("5 to 20 µs", 20_000),
    ("20 to 100 µs", 100_000),
    ("100 µs and more", 1 << 62),
)


class PathMarks(Struct, frozen=True):
    """The critical path and slack of a graph, by the indices of its nodes."""

    slack: dict[int, int] = field(default_factory=dict)
    """In ns, of the nodes that were measured."""
    nodes: frozenset[int] = frozenset()
    """Those on the critical path."""
    edges: frozenset[tuple[int, int]] = frozenset()
    """Those on the critical path, edges to and from nodes that take no time included; empty where
    it is a line."""
    is_line: bool = True
    """Whether every node is on the path, so that marking it would say nothing."""

    def label(self, node: int) -> str:
        """What the colour by slack says of a node."""
        if node in self.nodes:
            return ON_PATH
        slack = self.slack.get(node)
        if slack is None:
            return NOT_MEASURED
        return next(label for label, limit in SLACK_LABELS[1:] if slack < limit)


def path_marks(whole: WholeGraph, measured: MeasuredGraph | None) -> PathMarks:
    """The marks for a graph with all that it holds; none where it was not measured."""
    if measured is None:
        return PathMarks()
    node_of = {name: at for at, name in enumerate(whole.owner)}
    measured_slack = {
        node_of[name]: (int(measured.slack[at]), at)
        for name, at in measured.index_of.items()
        if name in node_of and measured.p50[at] != NOT_SEEN
    }
    slack = {at: ns for at, (ns, _) in measured_slack.items()}
    path = [
        node_of[measured.nodes[at]] for at in measured.path.nodes if measured.nodes[at] in node_of
    ]
    is_line = len(path) == len(slack)
    edges = () if is_line else _path_edges(path, whole.table.graph.edges, slack)
    return PathMarks(slack, frozenset(path), frozenset(edges), is_line)


def _path_edges(
    path: list[int], edges: Iterable[GraphEdge], seen: dict[int, int]
) -> set[tuple[int, int]]:
    """The edges between neighbours on the path, over nodes that the trace does not show."""
    after: dict[int, list[int]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)
    path_edges: set[tuple[int, int]] = set()
    for begin, end in pairwise(path):
        came: dict[int, int] = {}
        pending = [begin]
        while pending and end not in came:
            node = pending.pop()
            for target in after.get(node, ()):
                if target == end or (target not in seen and target not in came):
                    came[target] = node
                    pending.append(target)
        node = end
        while node in came and node != begin:
            path_edges.add((came[node], node))
            node = came[node]
    return path_edges
