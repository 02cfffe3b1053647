"""JSON of a step captured on several streams."""

from __future__ import annotations

from msgspec import field

from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    Document,
    Ns,
    Sentence,
    build,
)
from graphviz_dash.features.prediction.analysis.measured import compute_attempt_ns
from graphviz_dash.features.prediction.stream_narrative import describe_plan
from graphviz_dash.model.parallel import Attempt, ParallelPlan


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
