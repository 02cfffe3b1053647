"""What the traces of many ranks answer, as JSON; times in ns."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.analysis.ranks.fleet import FleetAnswer


def fleet_document(
    answers: Sequence[FleetAnswer], failures: Sequence[tuple[str, str]]
) -> dict[str, object]:
    """The answers of each mode; ``failures`` are the sources that could not be read, and why."""
    return {
        "modes": [_answer_document(answer) for answer in answers],
        "failed": [{"source": source, "reason": reason} for source, reason in failures],
    }


def _answer_document(answer: FleetAnswer) -> dict[str, object]:
    bound = answer.launch_bound
    return {
        "mode": answer.mode,
        "ranks": answer.ranks,
        "step": answer.step_ns,
        "unmarked": answer.unmarked,
        "incomplete": answer.incomplete,
        "launch_bound": None
        if bound is None
        else {
            "min": bound[0],
            "median": bound[1],
            "p95": bound[2],
            "max": bound[3],
            "worst": answer.launch_bound_worst,
        },
        "slow": [
            {
                "name": row.name,
                "rank": row.rank,
                "compute": row.compute_ns,
                "median": row.median_ns,
                "kernel": row.kernel,
                "kernel_more": row.kernel_ns,
            }
            for row in answer.slow
        ],
        "graphs": answer.graphs,
        "odd_graphs": [
            {
                "graph": odd.graph,
                "first": odd.first,
                "rows": odd.kernels,
                "owners": odd.owners,
                "lacking": odd.lacking,
                "runs": list(odd.ranks),
            }
            for odd in answer.odd
        ],
    }
