"""What ``show`` says of the node-id pass: what it recorded, and how alignment agrees with it."""

from __future__ import annotations

from graphviz_dash.analysis.replays.alignment_accuracy import agreement
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_count


def agreement_lines(run: Run) -> list[str]:
    """Lines for people; none for a run without a node-id pass."""
    node_ids = run.node_ids
    if node_ids is None:
        return []
    lines = [
        f"Node-id pass: {format_count(len(node_ids.rows))} records of "
        f"{format_count(node_ids.steps)} steps by {node_ids.source}, "
        f"{format_count(node_ids.dropped)} lost"
    ]
    against = agreement(run)
    if against is None or against.share is None:
        return [*lines, "  no record names a node, so alignment cannot be compared with it"]
    lines.append(
        f"  alignment without the ids agrees with them in {format_count(against.agreeing)} of "
        f"{format_count(against.rows)} rows ({against.share:.2%})"
    )
    lines += [
        f"  confidence {confidence:.2f}: {format_count(agreeing)} of {format_count(rows)} agree"
        for confidence, (rows, agreeing) in sorted(against.by_confidence.items(), reverse=True)
    ]
    lines += [f"  {format_count(n)} went to {miss.value}" for miss, n in against.misses.items()]
    if against.unnamed:
        lines.append(f"  {format_count(against.unnamed)} rows have ids that name no node")
    return lines
