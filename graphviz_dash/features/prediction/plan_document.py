"""Build the JSON of a step captured on several streams."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.exports.documents.values import Bytes, Count, Ns, Sentence, simplify_number
from graphviz_dash.features.prediction.analysis.measured import compute_attempt_ns
from graphviz_dash.features.prediction.stream_narrative import describe_plan
from graphviz_dash.model.parallel import Attempt, ParallelPlan


class AttemptDocument(TypedDict):
    """A plan: its prediction and, if tried, its median replay and memory."""

    streams: Count
    edges: Count
    predicted: Ns
    measured: Ns | None
    replays: Count
    predicted_memory: Bytes | None
    memory: Bytes | None
    workspaces: Bytes | None
    results_match: bool


class ParallelCheckDocument(TypedDict):
    """Replays compared with eager steps on the same, changed inputs."""

    replays: Count
    delayed_replays: Count
    loaded_replays: Count
    bitwise_equal: Count
    tensors: Count
    difference: float
    eager_difference: float


class ParallelPlanDocument(TypedDict):
    """A step captured on ``chosen_streams``; ``single_stream`` is the capture on one."""

    verdict: str
    chosen_streams: Count
    single_stream: AttemptDocument
    attempts: list[AttemptDocument]
    memory_limit: Bytes | None
    check: ParallelCheckDocument
    operators: Count
    opaque: Count
    sentences: list[Sentence]


def build_plan_document(name: str, plan: ParallelPlan) -> ParallelPlanDocument:
    """Build the plan of the run ``name``."""
    check = plan.check
    return {
        "verdict": plan.verdict.value,
        "chosen_streams": plan.chosen,
        "single_stream": _build_attempt(plan.line),
        "attempts": [_build_attempt(attempt) for attempt in plan.attempts],
        "memory_limit": plan.memory_limit_bytes,
        "check": {
            "replays": check.replays,
            "delayed_replays": check.delayed_replays,
            "loaded_replays": check.loaded_replays,
            "bitwise_equal": check.bitwise_replays,
            "tensors": check.tensors,
            "difference": check.difference,
            "eager_difference": check.eager_difference,
        },
        "operators": len(plan.operators),
        "opaque": sum(operator.opaque for operator in plan.operators),
        "sentences": list(describe_plan(name, plan)),
    }


def _build_attempt(attempt: Attempt) -> AttemptDocument:
    return {
        "streams": attempt.streams,
        "edges": attempt.edges,
        "predicted": attempt.expected_ns,
        "measured": simplify_number(compute_attempt_ns(attempt)),
        "replays": len(attempt.replays_ns),
        "predicted_memory": attempt.expected_bytes,
        "memory": attempt.memory_bytes,
        "workspaces": attempt.workspace_bytes,
        "results_match": attempt.differs_at is None,
    }
