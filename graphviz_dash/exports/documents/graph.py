"""A captured graph as JSON: its kinds, attribution, matching, concurrency and longest nodes."""

from __future__ import annotations

from collections import Counter

from graphviz_dash.analysis.diff.graph_pair import check_device_launch
from graphviz_dash.analysis.nodes.concurrency import Concurrency, p99_and_slack
from graphviz_dash.analysis.nodes.node_table import NodeTable, nodes_by_duration
from graphviz_dash.analysis.replays.alignment_accuracy import agreement
from graphviz_dash.exports.documents.values import number
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.concurrency import concurrency_sentences
from graphviz_dash.narrative.device_launch import finding_text


def agreement_document(run: Run) -> dict[str, object] | None:
    """How alignment agrees with the node ids of a run; None for a run without a node-id pass."""
    node_ids = run.node_ids
    if node_ids is None:
        return None
    against = agreement(run)
    return {
        "source": node_ids.source,
        "steps": node_ids.steps,
        "records": len(node_ids.rows),
        "dropped": node_ids.dropped,
        "outside": node_ids.outside,
        "compared": 0 if against is None else against.rows,
        "agreeing": 0 if against is None else against.agreeing,
        "unnamed": 0 if against is None else against.unnamed,
        "by_confidence": [
            {"confidence": confidence, "rows": rows, "agreeing": agreeing}
            for confidence, (rows, agreeing) in sorted(
                ({} if against is None else against.by_confidence).items(), reverse=True
            )
        ],
        "misses": {} if against is None else {k.name.lower(): n for k, n in against.misses.items()},
    }


def _concurrency_document(concurrency: Concurrency) -> dict[str, object]:
    """Critical path, concurrency and schedules of one graph; times in ns."""
    measured, needless = concurrency.measured, concurrency.needless
    return {
        "replays": measured.replays,
        "critical_path": measured.path.length,
        "path": [
            {"graph": measured.nodes[index][0], "node": measured.nodes[index][1]}
            for index in measured.path.nodes
        ],
        "work": measured.work_ns,
        "span": measured.span_ns,
        "busy": measured.busy_ns,
        "lost": measured.lost_ns,
        "available": measured.available,
        "achieved": measured.achieved,
        "streams": measured.streams,
        "schedules": [
            {"streams": schedule.streams, "length": schedule.length}
            for schedule in measured.schedules
        ],
        "needless": {
            "edges": len(needless.edges),
            "by_meaning": needless.by_meaning,
            "critical_path": needless.path_ns,
            "unknown": needless.unknown,
        },
        "sentences": list(concurrency_sentences(concurrency)),
    }


def _device_launch_document(run: Run, graph: CapturedGraph) -> dict[str, object]:
    check = check_device_launch(run, graph.id)
    said = graph.device_launch
    return {
        "verdict": check.verdict.value,
        **{
            title: [
                {
                    "rule": finding.rule,
                    "reason": finding_text(finding),
                    "graph": finding.graph,
                    "node": finding.node,
                }
                for finding in findings
            ]
            for title, findings in (("violations", check.violations), ("unknown", check.unknown))
        },
        "driver": {"result": said.result, "graph": said.graph, "node": said.node}
        if said is not None
        else None,
    }


def graph_document(
    run: Run, table: NodeTable, concurrency: Concurrency | Missing | None, count: int
) -> dict[str, object]:
    """A captured graph with its ``count`` slowest nodes."""
    graph = table.graph
    return {
        "id": graph.id,
        "parent": {"graph": graph.parent[0], "node": graph.parent[1]} if graph.parent else None,
        "read_by": graph.read_by,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "kinds": dict(Counter(node.kind.value for node in graph.nodes).most_common()),
        "disabled": [node.index for node in graph.nodes if node.enabled is False],
        "device_launch": _device_launch_document(run, graph) if graph.parent is None else None,
        "attribution": {
            "attributed": table.attributed,
            "launches": table.capture_launches,
            "methods": dict(Counter(row.origin.method for row in table.rows).most_common()),
        },
        "matching": {
            "replays": table.replays,
            "gpu_rows": table.replay_kernels,
            "matched": table.matched_kernels,
            "methods": dict(Counter(row.times.method for row in table.rows).most_common()),
            "pass": table.timed_in,
        },
        "concurrency": None
        if concurrency is None or isinstance(concurrency, Missing)
        else _concurrency_document(concurrency),
        "concurrency_reason": concurrency.reason if isinstance(concurrency, Missing) else None,
        "longest_nodes": [
            {
                "index": row.node.index,
                "kind": row.node.kind.value,
                "name": row.node.label,
                "category": row.category.value,
                "median": number(row.times.median_ns),
                "p99": spread[0],
                "slack": spread[1],
                "samples": row.times.samples,
                "op": row.origin.op,
                "module": row.origin.module,
                "source": row.origin.source,
            }
            for row, spread in (
                (row, p99_and_slack(concurrency, table, row))
                for row in nodes_by_duration(table)[:count]
            )
        ],
    }
