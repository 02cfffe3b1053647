"""Node-id pass of a run in ``show``: its records and their agreement with alignment."""

from __future__ import annotations

from graphviz_dash.analysis.replays.alignment_accuracy import measure_agreement
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_count


def format_agreement(run: Run) -> list[str]:
    """Format the lines; none for a run without a node-id pass."""
    node_ids = run.node_ids
    if node_ids is None:
        return []
    lines = [
        f"Node-id pass: {format_count(len(node_ids.rows))} records of "
        f"{format_count(node_ids.steps)} steps from {node_ids.source}, "
        f"{format_count(node_ids.dropped_records)} lost"
    ]
    accuracy = measure_agreement(run)
    if accuracy is None or accuracy.share is None:
        return [*lines, "  no record names a node, so alignment cannot be checked"]
    lines.append(
        f"  alignment without the ids matches them in {format_count(accuracy.agreeing)} of "
        f"{format_count(accuracy.rows)} rows ({accuracy.share:.2%})"
    )
    lines += [
        f"  confidence {confidence:.2f}: {format_count(agreeing)} of {format_count(rows)} match"
        for confidence, (rows, agreeing) in sorted(accuracy.by_confidence.items(), reverse=True)
    ]
    lines += [f"  {format_count(n)} matched to {miss.value}" for miss, n in accuracy.misses.items()]
    if accuracy.unnamed:
        lines.append(f"  {format_count(accuracy.unnamed)} rows have ids of unknown nodes")
    return lines
