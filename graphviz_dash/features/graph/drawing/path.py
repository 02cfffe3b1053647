"""Critical path and slack of a measured graph, for drawing."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from msgspec import Struct, field

from graphviz_dash.analysis.nodes.measured_graph import UNTRACED, MeasuredGraph
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.model.graph import GraphEdge

ON_PATH_LABEL: Final = "on the critical path"
NO_SLACK_LABEL: Final = "slack under 5 µs"
NOT_MEASURED_LABEL: Final = "not measured"
SLACK_LABELS: Final = (
    (ON_PATH_LABEL, -1),
    (NO_SLACK_LABEL, 5_000),
    ("5 to 20 µs", 20_000),
    ("20 to 100 µs", 100_000),
    ("100 µs and more", 1 << 62),
)


class PathMarks(Struct, frozen=True):
    """Critical path and slack of a graph, by node index."""

    slack: dict[int, int] = field(default_factory=dict)
    """Slack in ns of measured nodes."""
    nodes: frozenset[int] = frozenset()
    edges: frozenset[tuple[int, int]] = frozenset()
    """Includes edges of nodes without duration; empty if the graph is a line."""
    is_line: bool = True
    """Every node is on the path, so that marking it has no meaning."""

    def get_label(self, node: int) -> str:
        """Return the slack label of a node."""
        if node in self.nodes:
            return ON_PATH_LABEL
        slack = self.slack.get(node)
        if slack is None:
            return NOT_MEASURED_LABEL
        return next(label for label, limit in SLACK_LABELS[1:] if slack < limit)


def build_path_marks(full_graph: ExpandedGraph, measured: MeasuredGraph | None) -> PathMarks:
    """Compute the marks of a graph; empty if it was not measured."""
    if measured is None:
        return PathMarks()
    node_of = {name: position for position, name in enumerate(full_graph.owners)}
    measured_slack = {
        node_of[name]: (int(measured.slack[position]), position)
        for name, position in measured.index_of.items()
        if name in node_of and measured.p50[position] != UNTRACED
    }
    slack = {position: ns for position, (ns, _) in measured_slack.items()}
    path = [
        node_of[measured.nodes[position]]
        for position in measured.path.nodes
        if measured.nodes[position] in node_of
    ]
    is_line = len(path) == len(slack)
    edges = () if is_line else _find_path_edges(path, full_graph.table.graph.edges, slack)
    return PathMarks(slack, frozenset(path), frozenset(edges), is_line)


def _find_path_edges(
    path: list[int], edges: Iterable[GraphEdge], measured_nodes: dict[int, int]
) -> set[tuple[int, int]]:
    """Find the path's edges, across nodes that the trace does not show."""
    after: dict[int, list[int]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)
    path_edges: set[tuple[int, int]] = set()
    for start, end in pairwise(path):
        previous: dict[int, int] = {}
        pending = [start]
        while pending and end not in previous:
            node = pending.pop()
            for target in after.get(node, ()):
                if target == end or (target not in measured_nodes and target not in previous):
                    previous[target] = node
                    pending.append(target)
        node = end
        while node in previous and node != start:
            path_edges.add((previous[node], node))
            node = previous[node]
    return path_edges
