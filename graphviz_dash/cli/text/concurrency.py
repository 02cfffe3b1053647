"""The concurrency of a graph as JSON, and what of it belongs to a single node."""

from __future__ import annotations

from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.measured_graph import NOT_SEEN
from graphviz_dash.analysis.nodes.node_table import NodeRow, NodeTable


def spread_of(
    found: Concurrency | str | None, table: NodeTable, row: NodeRow
) -> tuple[int | None, int | None]:
    """p99 and slack of a node, in ns; None where it was not measured."""
    if found is None or isinstance(found, str):
        return None, None
    place = found.measured.places.get((table.graph.id, row.node.index))
    if place is None or found.measured.p50[place] == NOT_SEEN:
        return None, None
    return int(found.measured.p99[place]), int(found.measured.slack[place])


def concurrency_document(found: Concurrency) -> dict[str, object]:
    """Critical path, concurrency and schedules of one graph; times in ns."""
    measured, needless = found.measured, found.needless
    return {
        "replays": measured.replays,
        "critical_path": measured.path.length,
        "path": [
            {"graph": measured.nodes[place][0], "node": measured.nodes[place][1]}
            for place in measured.path.nodes
        ],
        "work": measured.work_ns,
        "span": measured.span_ns,
        "busy": measured.busy_ns,
        "lost": measured.lost_ns,
        "available": measured.available,
        "achieved": measured.achieved,
        "streams": measured.streams,
        "schedules": [{"streams": one.streams, "length": one.length} for one in measured.schedules],
        "needless": {
            "edges": len(needless.edges),
            "by_meaning": needless.by_meaning,
            "critical_path": needless.path_ns,
            "unknown": needless.unknown,
        },
        "sentences": list(found.sentences),
    }
