"""Build the JSON of the traces of many ranks; times in ns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from graphviz_dash.exports.documents.values import Count, Fraction, Ns, Sentence
from graphviz_dash.features.ranks.fleet import FleetFindings


class LaunchBoundDocument(TypedDict):
    """Share of a step that waits for launches, over the ranks."""

    min: Fraction
    median: Fraction
    p95: Fraction
    max: Fraction
    worst_rank: str | None


class SlowRankDocument(TypedDict):
    """A rank whose own work is slower than that of the others."""

    name: str
    rank: int | None
    compute: Ns
    median: Ns
    kernel: str | None
    kernel_excess: Ns | None


class StragglerRankDocument(TypedDict):
    """The rank that the others wait for; ``communication`` is its communication-only time per step,
    including waits.
    """

    name: str
    rank: int | None
    communication: Ns
    median: Ns


class DivergentGraphDocument(TypedDict):
    """A graph that not all ranks replay; with ``missing``, ``runs`` are the ranks without it."""

    graph: str
    first_kernel: str
    rows: Count
    ranks_with_graph: Count
    missing: bool
    runs: list[str]


class FleetModeDocument(TypedDict):
    """Result for the ranks of one mode."""

    mode: str | None
    job: str | None
    ranks: Count
    compared: bool
    step: Ns | None
    ranks_without_steps: Count
    incomplete_ranks: Count
    ranks_without_gpu_work: Count
    launch_bound: LaunchBoundDocument | None
    slow_ranks: list[SlowRankDocument]
    straggler: StragglerRankDocument | None
    graphs: Count
    divergent_graphs: list[DivergentGraphDocument]


class UnreadableSourceDocument(TypedDict):
    """A source that could not be read."""

    source: str
    reason: Sentence


class FleetDocument(TypedDict):
    """Results for the traces of many ranks."""

    modes: list[FleetModeDocument]
    failed: list[UnreadableSourceDocument]


def build_fleet_document(
    answers: Sequence[FleetFindings], failures: Sequence[tuple[str, str]]
) -> FleetDocument:
    """Build the results by mode, with the unreadable sources and their errors."""
    return {
        "modes": [_build_mode_document(answer) for answer in answers],
        "failed": [{"source": source, "reason": reason} for source, reason in failures],
    }


def _build_mode_document(answer: FleetFindings) -> FleetModeDocument:
    bound = answer.launch_bound
    return {
        "mode": answer.mode,
        "job": answer.job,
        "ranks": answer.ranks,
        "compared": answer.is_compared,
        "step": answer.step_ns,
        "ranks_without_steps": answer.unmarked,
        "incomplete_ranks": answer.incomplete,
        "ranks_without_gpu_work": answer.without_gpu_work,
        "launch_bound": None
        if bound is None
        else {
            "min": bound[0],
            "median": bound[1],
            "p95": bound[2],
            "max": bound[3],
            "worst_rank": answer.launch_bound_worst,
        },
        "slow_ranks": [
            {
                "name": row.name,
                "rank": row.rank,
                "compute": row.compute_ns,
                "median": row.median_ns,
                "kernel": row.kernel,
                "kernel_excess": row.kernel_ns,
            }
            for row in answer.slow
        ],
        "straggler": None
        if answer.straggler is None
        else {
            "name": answer.straggler.name,
            "rank": answer.straggler.rank,
            "communication": answer.straggler.communication_ns,
            "median": answer.straggler.median_ns,
        },
        "graphs": answer.graph_count,
        "divergent_graphs": [
            {
                "graph": odd.graph,
                "first_kernel": odd.first_name,
                "rows": odd.kernels,
                "ranks_with_graph": odd.owner_count,
                "missing": odd.lists_missing,
                "runs": list(odd.ranks),
            }
            for odd in answer.divergent
        ],
    }
