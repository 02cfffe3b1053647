"""JSON of a run: its work, environment, group and graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import field

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.caveats import CaveatCode
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.step_comparison.time_by_category import TimeByCategory
from graphviz_dash.exports.documents.figures import FigureDocument, build_figures_document
from graphviz_dash.exports.documents.integrity import IntegrityDocument, build_integrity_document
from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    Document,
    FilePath,
    Fraction,
    Ns,
    Sentence,
    build,
    display_path,
    get_reason,
)
from graphviz_dash.features.graph.document import (
    AgreementDocument,
    GraphDocument,
    build_agreement_document,
    build_graph_document,
)
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.headline import describe_run
from graphviz_dash.narrative.low_confidence import describe_low_confidence


class WorkDocument(Document, frozen=True):
    """Work of a step, as declared by its workload."""

    model_flops: Count
    tokens: Count | None
    precision: str
    formula: str


class EnvironmentDocument(Document, frozen=True):
    """Machine and software versions of a run; null if unknown."""

    gpu: str | None
    compute_capability: list[int] | None
    gpu_memory: Bytes | None
    multiprocessors: Count | None
    gpu_count: Count | None
    driver: str | None
    cuda_driver: str | None
    cuda_runtime: str | None
    cupti: str | None
    torch: str | None
    cuda_bindings: str | None
    python: str | None
    cpu: str | None
    cpu_count: Count | None
    os: str | None
    nccl: str | None


class GroupDocument(Document, frozen=True):
    """The ranks that ran together with this one."""

    world_size: Count
    device: int
    settings: dict[str, str]


class FailureDocument(Document, frozen=True):
    """A failure during collection."""

    stage: str
    error: str
    message: str
    location: str | None


class AbsentFactDocument(Document, frozen=True):
    """A fact missing from a run."""

    fact: str
    reason: Sentence


class IdentityDocument(Document, frozen=True):
    """Identity of a run, its failures and its missing facts."""

    name: str
    path: FilePath
    mode: str
    rank: int | None
    workload: str
    status: str
    gpu: str | None
    created: str
    recorded_at: str | None = field(name="recorded")
    failures: list[FailureDocument]
    absent: list[AbsentFactDocument]


class WeaknessDocument(Document, frozen=True):
    """A reason for low confidence in metrics, and the advice."""

    code: str
    text: Sentence
    advice: Sentence
    metrics: list[str]


class UnseenGraphsDocument(Document, frozen=True):
    """Traced launches of graphs missing from the run, out of ``total_launches``.

    ``time_share`` is their share of the GPU time; null if the launches cannot be identified.
    """

    count: Count = field(name="launches")
    launches: Count = field(name="total_launches")
    time_share: Fraction | None


class TimeByCategoryDocument(Document, frozen=True):
    """A step in parts, in ns.

    ``rank_wait`` is time spent waiting for other ranks, ``excess`` is busy time beyond the step.
    ``profiled`` is true if only profiled steps were timed.
    """

    step_ns: Ns = field(name="step")
    busy_ns: Ns = field(name="busy")
    parts: dict[str, Ns]
    waiting_ns: Ns = field(name="rank_wait")
    idle_ns: Ns | None = field(name="idle")
    excess_ns: Ns | None = field(name="excess")
    profiled: bool


R = TypeVar("R", bound=IdentityDocument)


class SingleRunDocument(IdentityDocument, frozen=True):
    """A single run."""

    sentence: Sentence
    factory: str
    seed: int | None
    parameters: dict[str, str | int | float | bool | None]
    work: WorkDocument | None
    warmup: Count
    iterations: Count
    traced_steps: Count = field(name="traced_iterations")
    command: list[str]
    tool_version: str
    environment: EnvironmentDocument
    group: GroupDocument | None
    metrics: dict[str, FigureDocument]
    time_breakdown: TimeByCategoryDocument | None
    time_breakdown_reason: Sentence | None
    integrity: IntegrityDocument | None
    caveats: list[WeaknessDocument]
    missing_graphs: UnseenGraphsDocument | None
    graphs: list[GraphDocument]
    node_ids: AgreementDocument | None


def _build_environment_document(run: Run) -> EnvironmentDocument:
    machine, gpu = run.manifest.environment, run.manifest.environment.gpu
    return build(
        EnvironmentDocument,
        machine,
        gpu=gpu and gpu.name,
        compute_capability=gpu and gpu.compute_capability,
        gpu_memory=gpu and gpu.memory_bytes,
        multiprocessors=gpu and gpu.multiprocessors,
    )


def build_run(document: type[R], run: Run, *sources: object, **computed: object) -> R:
    """Build a document that starts with the identity of a run."""
    manifest = run.manifest
    gpu = manifest.environment.gpu
    return build(
        document,
        manifest,
        manifest.workload,
        *sources,
        name=run.name,
        path=display_path(run.path),
        workload=manifest.workload.name,
        gpu=gpu and gpu.name,
        **computed,
    )


def build_weakness_documents(run: RunComparison) -> list[WeaknessDocument]:
    """Build the reasons for low confidence in the run's metrics."""
    return [build(WeaknessDocument, note) for note in describe_low_confidence(run.low_confidence)]


def build_unseen_graphs_document(run: RunComparison) -> UnseenGraphsDocument | None:
    """Build the launches of graphs missing from the run; None if there are none."""
    for reason in run.low_confidence:
        if reason.code is CaveatCode.UNKNOWN_GRAPHS:
            return build(UnseenGraphsDocument, **reason.values)
    return None


def build_time_breakdown(breakdown: TimeByCategory | Missing) -> TimeByCategoryDocument | None:
    """Build the breakdown of a step's time, in ns; None if missing."""
    if isinstance(breakdown, Missing):
        return None
    parts = {part.category: part.ns for part in breakdown.parts}
    return build(TimeByCategoryDocument, breakdown, parts=parts)


def build_run_document(
    result: RunComparison,
    figures: Iterable[MetricValue],
    tables: Sequence[NodeTable],
    measured: Mapping[str, Concurrency | Missing],
    parallel: Mapping[str, ParallelPrediction | Missing],
    count: int,
) -> SingleRunDocument:
    """Build the document of a single run.

    Args:
        result: the run, without a comparison.
        figures: metric values that need no baseline.
        tables: nodes of each graph.
        measured: concurrency by graph id, or the reason it is unavailable.
        parallel: prediction on several streams by graph id, or the reason it is unavailable.
        count: number of nodes listed per graph, longest first.
    """
    return build_run(
        SingleRunDocument,
        result.run,
        traced_steps=result.traced_steps,
        sentence=describe_run(result),
        environment=_build_environment_document(result.run),
        metrics=build_figures_document(figures),
        time_breakdown=build_time_breakdown(result.time_by_category),
        time_breakdown_reason=get_reason(result.time_by_category),
        integrity=result.integrity and build_integrity_document(result.integrity),
        caveats=build_weakness_documents(result),
        missing_graphs=build_unseen_graphs_document(result),
        graphs=[
            build_graph_document(
                result.run,
                table,
                measured.get(table.graph.id),
                parallel.get(table.graph.id),
                count,
            )
            for table in tables
        ],
        node_ids=build_agreement_document(result.run),
    )
