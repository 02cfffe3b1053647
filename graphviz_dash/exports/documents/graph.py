"""What is known of a captured graph, as JSON."""

from __future__ import annotations

from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.replays.alignment_accuracy import agreement
from graphviz_dash.model.run import Run


def agreement_document(run: Run) -> dict[str, object] | None:
    """The same as JSON; None for a run without a node-id pass."""
    found = run.node_ids
    if found is None:
        return None
    against = agreement(run)
    return {
        "source": found.source,
        "steps": found.steps,
        "records": len(found.rows),
        "dropped": found.dropped,
        "outside": found.outside,
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
