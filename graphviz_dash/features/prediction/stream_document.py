"""Build the JSON of a graph on several streams."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.exports.documents.values import Count, Fraction, Ns, Ratio, Sentence
from graphviz_dash.features.prediction.analysis.contention import find_contentions
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.features.prediction.stream_narrative import (
    describe_parallel_verdict,
    list_parallel_notes,
)

_MOST_CONTENTIONS = 20


class OnStreamsDocument(TypedDict):
    """Predicted replay on a number of streams, with its 90% interval in ns."""

    streams: Count
    step: Ns
    low: Ns
    high: Ns
    speedup: Ratio


class ContentionDocument(TypedDict):
    """A node that concurrent nodes slow down; ``share`` is its share of the GPU."""

    node: int
    contention_time: Ns
    share: Fraction
    concurrent_nodes: list[int]


class ParallelDocument(TypedDict):
    """A graph on several streams; times in ns.

    ``critical_path`` and ``capacity`` are lower bounds of the work alone. ``nodes`` and ``stream``
    are the plan of the last row, empty if that is a chain.
    """

    single_stream: Ns
    basis: str
    dependency_source: str
    verdict: str
    critical_path: Ns
    capacity: Ns
    rows: list[OnStreamsDocument]
    contention_time: Ns
    contention: list[ContentionDocument]
    nodes: list[int]
    stream: list[int]
    sentences: list[Sentence]


def build_parallel_document(prediction: ParallelPrediction) -> ParallelDocument:
    """Build the prediction for one graph."""
    is_parallel = prediction.plan.stream_count > 1
    return {
        "single_stream": round(prediction.captured_ns),
        "basis": prediction.basis.value,
        "dependency_source": prediction.work.source.value,
        "verdict": prediction.verdict.value,
        "critical_path": round(prediction.path_ns),
        "capacity": round(prediction.lower_bound.capacity_ns),
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
        "contention_time": round(prediction.plan.schedule.slowed_ns),
        "contention": [
            {
                "node": entry.node,
                "contention_time": round(entry.slowed_ns),
                "share": entry.share,
                "concurrent_nodes": list(entry.concurrent_nodes),
            }
            for entry in find_contentions(prediction, _MOST_CONTENTIONS)
        ],
        "nodes": [node for group in prediction.work.nodes for node in group] if is_parallel else [],
        "stream": list(prediction.plan.stream) if is_parallel else [],
        "sentences": [describe_parallel_verdict(prediction), *list_parallel_notes(prediction)],
    }
