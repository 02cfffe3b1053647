"""JSON of the completeness of a trace."""

from __future__ import annotations

from msgspec import field

from graphviz_dash.analysis.trace.integrity import Claim, TraceIntegrity
from graphviz_dash.exports.documents.values import Count, Document, Ns, Sentence, build


class IntegrityDocument(Document, frozen=True):
    """Completeness of a trace; ``unsupported`` holds the reason of each claim that it rules out."""

    launches: Count
    launches_with_work: Count
    kernels: Count
    kernels_with_launch: Count
    steps: Count
    complete_steps: Count
    is_cut: bool = field(name="cut")
    processes: Count
    devices: Count
    partial_replays: Count
    clock_error_ns: Ns = field(name="clock_error")
    unsupported: dict[str, Sentence]


def build_integrity_document(integrity: TraceIntegrity) -> IntegrityDocument:
    """Build the completeness of a trace."""
    obstacles = {claim: integrity.explain(claim) for claim in Claim}
    return build(
        IntegrityDocument,
        integrity,
        complete_steps=len(integrity.complete_steps),
        unsupported={
            claim: obstacle.reason for claim, obstacle in obstacles.items() if obstacle is not None
        },
    )
