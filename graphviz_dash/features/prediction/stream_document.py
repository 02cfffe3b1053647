"""JSON of a graph on several streams."""

from __future__ import annotations

from msgspec import field

from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    Document,
    Fraction,
    Ns,
    Ratio,
    Sentence,
    WholeNs,
    build,
)
from graphviz_dash.features.prediction.analysis.contention import find_contentions
from graphviz_dash.features.prediction.analysis.measured import compute_attempt_ns
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.features.prediction.stream_narrative import (
    describe_parallel_verdict,
    describe_plan,
    list_parallel_notes,
)
from graphviz_dash.model.parallel import Attempt, ParallelPlan

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


class AttemptDocument(Document, frozen=True):
    """A plan: its prediction and, if tried, its median replay and memory."""

    streams: Count
    edges: Count
    predicted_ns: Ns = field(name="predicted")
    measured: Ns | None
    replays: Count
    predicted_bytes: Bytes | None = field(name="predicted_memory")
    memory_bytes: Bytes | None = field(name="memory")
    workspace_bytes: Bytes | None = field(name="workspaces")
    results_match: bool


class ParallelCheckDocument(Document, frozen=True):
    """Replays compared with eager steps on the same, changed inputs."""

    replays: Count
    delayed_replays: Count
    loaded_replays: Count
    bitwise_replays: Count = field(name="bitwise_equal")
    tensors: Count
    difference: float
    eager_difference: float


class ParallelPlanDocument(Document, frozen=True):
    """A step captured on ``chosen_streams``; ``single_stream`` is the capture on one."""

    verdict: str
    selected_streams: Count = field(name="chosen_streams")
    single_stream: AttemptDocument
    attempts: list[AttemptDocument]
    memory_limit_bytes: Bytes | None = field(name="memory_limit")
    check: ParallelCheckDocument
    operators: Count
    opaque: Count
    sentences: list[Sentence]


def build_plan_document(name: str, plan: ParallelPlan) -> ParallelPlanDocument:
    """Build the plan of the run ``name``."""
    return build(
        ParallelPlanDocument,
        plan,
        single_stream=_build_attempt(plan.serial),
        attempts=[_build_attempt(attempt) for attempt in plan.attempts],
        operators=len(plan.operators),
        opaque=sum(operator.opaque for operator in plan.operators),
        sentences=describe_plan(name, plan),
    )


def _build_attempt(attempt: Attempt) -> AttemptDocument:
    return build(
        AttemptDocument,
        attempt,
        measured=compute_attempt_ns(attempt),
        replays=len(attempt.replays_ns),
        results_match=attempt.differs_at is None,
    )
