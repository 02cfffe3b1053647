"""JSON of a graph on several streams."""

from __future__ import annotations

from msgspec import field

from graphviz_dash.exports.documents.values import (
    Count,
    Document,
    Fraction,
    Ratio,
    Sentence,
    WholeNs,
    build,
)
from graphviz_dash.features.prediction.analysis.contention import find_contentions
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.features.prediction.stream_narrative import (
    describe_parallel_verdict,
    list_parallel_notes,
)

_MOST_CONTENTIONS = 20


class OnStreamsDocument(Document, frozen=True):
    """Predicted replay on a number of streams, with its 90% interval in ns."""

    streams: Count
    step: WholeNs
    low: WholeNs
    high: WholeNs
    speedup: Ratio


class ContentionDocument(Document, frozen=True):
    """A node that concurrent nodes slow down; ``share`` is its share of the GPU."""

    node: int
    slowed_ns: WholeNs = field(name="contention_time")
    share: Fraction
    concurrent_nodes: list[int]


class ParallelDocument(Document, frozen=True):
    """A graph on several streams; times in ns.

    ``critical_path`` and ``capacity`` are lower bounds of the work alone. ``nodes`` and ``stream``
    are the plan of the last row, empty if that is a chain.
    """

    captured_ns: WholeNs = field(name="single_stream")
    basis: str
    dependency_source: str
    verdict: str
    path_ns: WholeNs = field(name="critical_path")
    capacity: WholeNs
    rows: list[OnStreamsDocument]
    contention_time: WholeNs
    contention: list[ContentionDocument]
    nodes: list[int]
    stream: list[int]
    sentences: list[Sentence]


def build_parallel_document(prediction: ParallelPrediction) -> ParallelDocument:
    """Build the prediction for one graph."""
    is_parallel = prediction.plan.stream_count > 1
    return build(
        ParallelDocument,
        prediction,
        dependency_source=prediction.work.source,
        capacity=prediction.lower_bound.capacity_ns,
        rows=[
            build(
                OnStreamsDocument,
                row,
                step=row.step.value,
                low=row.step.low or row.step.value,
                high=row.step.high or row.step.value,
            )
            for row in prediction.rows
        ],
        contention_time=prediction.plan.schedule.slowed_ns,
        contention=find_contentions(prediction, _MOST_CONTENTIONS),
        nodes=[node for group in prediction.work.nodes for node in group] if is_parallel else [],
        stream=prediction.plan.stream if is_parallel else [],
        sentences=[describe_parallel_verdict(prediction), *list_parallel_notes(prediction)],
    )
