"""Build the JSON of the completeness of a trace."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.analysis.trace.integrity import Claim, TraceIntegrity
from graphviz_dash.exports.documents.values import Count, Ns, Sentence


class IntegrityDocument(TypedDict):
    """Completeness of a trace; ``unsupported`` holds the reason of each claim that it rules out."""

    launches: Count
    launches_with_work: Count
    kernels: Count
    kernels_with_launch: Count
    steps: Count
    complete_steps: Count
    cut: bool
    processes: Count
    devices: Count
    clock_error: Ns
    unsupported: dict[str, Sentence]


def build_integrity_document(integrity: TraceIntegrity) -> IntegrityDocument:
    """Build the completeness of a trace."""
    obstacles = {claim: integrity.explain(claim) for claim in Claim}
    return {
        "launches": integrity.launches,
        "launches_with_work": integrity.launches_with_work,
        "kernels": integrity.kernels,
        "kernels_with_launch": integrity.kernels_with_launch,
        "steps": integrity.steps,
        "complete_steps": len(integrity.complete_steps),
        "cut": integrity.is_cut,
        "processes": integrity.processes,
        "devices": integrity.devices,
        "clock_error": integrity.clock_error_ns,
        "unsupported": {
            claim.value: obstacle.reason
            for claim, obstacle in obstacles.items()
            if obstacle is not None
        },
    }
