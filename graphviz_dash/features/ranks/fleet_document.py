"""JSON of the traces of many ranks; times in ns."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from graphviz_dash.exports.documents.values import Count, Document, Fraction, Ns, Sentence, build
from graphviz_dash.features.ranks.fleet import FleetFindings


class LaunchBoundDocument(Document, frozen=True):
    """Share of a step that waits for launches, over the ranks."""

    min: Fraction
    median: Fraction
    p95: Fraction
    max: Fraction
    worst_rank: str | None


class SlowRankDocument(Document, frozen=True):
    """A rank whose own work is slower than that of the others."""

    name: str
    rank: int | None
    compute_ns: Ns = field(name="compute")
    median_ns: Ns = field(name="median")
    kernel: str | None
    kernel_ns: Ns | None = field(name="kernel_excess")


class StragglerRankDocument(Document, frozen=True):
    """The rank that the others wait for; ``communication`` is its communication-only time per step,
    including waits.
    """

    name: str
    rank: int | None
    communication_ns: Ns = field(name="communication")
    median_ns: Ns = field(name="median")


class DivergentGraphDocument(Document, frozen=True):
    """A graph that not all ranks replay; with ``missing``, ``runs`` are the ranks without it."""

    graph: str
    first_name: str = field(name="first_kernel")
    kernels: Count = field(name="rows")
    owner_count: Count = field(name="ranks_with_graph")
    lists_missing: bool = field(name="missing")
    ranks: list[str] = field(name="runs")


class FleetModeDocument(Document, frozen=True):
    """Result for the ranks of one mode."""

    mode: str | None
    job: str | None
    ranks: Count
    can_compare: bool = field(name="compared")
    step_ns: Ns | None = field(name="step")
    ranks_without_steps: Count
    incomplete_ranks: Count
    ranks_without_gpu_work: Count
    gpu_work_reasons: list[Sentence]
    launch_bound: LaunchBoundDocument | None
    slow: list[SlowRankDocument] = field(name="slow_ranks")
    straggler: StragglerRankDocument | None
    graph_count: Count = field(name="graphs")
    divergent: list[DivergentGraphDocument] = field(name="divergent_graphs")


class UnreadableSourceDocument(Document, frozen=True):
    """A source that could not be read."""

    source: str
    reason: Sentence


class FleetDocument(Document, frozen=True):
    """Results for the traces of many ranks."""

    modes: list[FleetModeDocument]
    failed: list[UnreadableSourceDocument]


def build_fleet_document(
    answers: Sequence[FleetFindings], failures: Sequence[tuple[str, str]]
) -> FleetDocument:
    """Build the results by mode, with the unreadable sources and their errors."""
    return FleetDocument(
        modes=[_build_mode_document(findings) for findings in answers],
        failed=[
            UnreadableSourceDocument(source=source, reason=reason) for source, reason in failures
        ],
    )


def _build_mode_document(findings: FleetFindings) -> FleetModeDocument:
    bound = findings.launch_bound
    shares = zip(("min", "median", "p95", "max"), bound or (), strict=False)
    return build(
        FleetModeDocument,
        findings,
        launch_bound=bound
        and build(LaunchBoundDocument, **dict(shares), worst_rank=findings.launch_bound_worst),
    )
