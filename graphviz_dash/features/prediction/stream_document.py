"""What a graph would take on several streams, as JSON."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.exports.documents.values import Count, Fraction, Ns, Ratio, Sentence
from graphviz_dash.features.prediction.analysis.contention import contentions
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.features.prediction.stream_narrative import parallel_notes, parallel_verdict

_MOST_CONTENTIONS = 20


class OnStreamsDocument(TypedDict):
    """What a replay on some streams would take, with its 90% interval in ns."""

    streams: Count
    step: Ns
    low: Ns
    high: Ns
    speedup: Ratio


class ContentionDocument(TypedDict):
    """A node that those ``beside`` it slow down; ``share`` is the part of the GPU that it takes."""

    node: int
    slowed: Ns
    share: Fraction
    beside: list[int]


class ParallelDocument(TypedDict):
    """A graph on several streams; times in ns. ``critical_path`` and ``capacity`` bound the work
    alone; ``nodes`` and ``stream`` are the plan of the last row, empty where that is a line."""

    line: Ns
    basis: str
    needs: str
    outlook: str
    critical_path: Ns
    capacity: Ns
    rows: list[OnStreamsDocument]
    slowed: Ns
    contention: list[ContentionDocument]
    nodes: list[int]
    stream: list[int]
    sentences: list[Sentence]


def parallel_document(prediction: ParallelPrediction) -> ParallelDocument:
    """The prediction for one graph."""
    several = prediction.plan.streams > 1
    return {
        "line": round(prediction.line_ns),
        "basis": prediction.basis.value,
        "needs": prediction.work.source.value,
        "outlook": prediction.outlook.value,
        "critical_path": round(prediction.path_ns),
        "capacity": round(prediction.least.capacity_ns),
        "rows": [
            {
                "streams": row.streams,
                "step": round(row.step.value),
                "low": round(row.step.low or row.step.value),
                "high": round(row.step.high or row.step.value),
                "speedup": row.speedup,
            }
            for row in prediction.rows
        ],
        "slowed": round(prediction.plan.schedule.slowed_ns),
        "contention": [
            {
                "node": each.node,
                "slowed": round(each.slowed_ns),
                "share": each.share,
                "beside": list(each.beside),
            }
            for each in contentions(prediction, _MOST_CONTENTIONS)
        ],
        "nodes": [node for group in prediction.work.nodes for node in group] if several else [],
        "stream": list(prediction.plan.stream) if several else [],
        "sentences": [parallel_verdict(prediction), *parallel_notes(prediction)],
    }
