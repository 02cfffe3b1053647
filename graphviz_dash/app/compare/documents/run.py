"""Build the JSON of a run: its work, environment, group and graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.low_confidence import UnknownGraphs
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.step_comparison.time_by_category import TimeByCategory
from graphviz_dash.exports.documents.figures import FigureDocument, build_figures_document
from graphviz_dash.exports.documents.integrity import (
    IntegrityDocument,
    build_integrity_document,
)
from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    FilePath,
    Fraction,
    Ns,
    Sentence,
    convert_value,
    display_path,
    get_reason,
    simplify_number,
)
from graphviz_dash.features.graph.document import (
    AgreementDocument,
    GraphDocument,
    build_agreement_document,
    build_graph_document,
)
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Manifest, Run, StepWork
from graphviz_dash.narrative.headline import describe_run
from graphviz_dash.narrative.low_confidence import describe_low_confidence


class WorkDocument(TypedDict):
    """Work of a step, as declared by its workload."""

    model_flops: Count
    tokens: Count | None
    precision: str
    formula: str


class EnvironmentDocument(TypedDict):
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


class GroupDocument(TypedDict):
    """The ranks that ran together with this one."""

    world_size: Count
    device: int
    settings: dict[str, str]


class FailureDocument(TypedDict):
    """A failure during collection."""

    stage: str
    error: str
    message: str
    location: str | None


class AbsentFactDocument(TypedDict):
    """A fact missing from a run."""

    fact: str
    reason: Sentence


class IdentityDocument(TypedDict):
    """Identity of a run, its failures and its missing facts."""

    name: str
    path: FilePath
    mode: str
    rank: int | None
    workload: str
    status: str
    gpu: str | None
    created: str
    recorded: str | None
    failures: list[FailureDocument]
    absent: list[AbsentFactDocument]


class WeaknessDocument(TypedDict):
    """A reason for low confidence in metrics, and the advice."""

    code: str
    text: Sentence
    advice: Sentence
    metrics: list[str]


class UnseenGraphsDocument(TypedDict):
    """Traced launches of graphs missing from the run, out of ``total_launches``.

    ``time_share`` is their share of the GPU time; null if the launches cannot be identified.
    """

    launches: Count
    total_launches: Count
    time_share: Fraction | None


class TimeByCategoryDocument(TypedDict):
    """A step in parts, in ns.

    ``rank_wait`` is time spent waiting for other ranks, ``excess`` is busy time beyond the step.
    ``profiled`` is true if only profiled steps were timed.
    """

    step: Ns
    busy: Ns
    parts: dict[str, Ns]
    rank_wait: Ns
    idle: Ns | None
    excess: Ns | None
    profiled: bool


class SingleRunDocument(IdentityDocument):
    """A single run."""

    sentence: Sentence
    factory: str
    seed: int | None
    parameters: dict[str, str | int | float | bool | None]
    work: WorkDocument | None
    warmup: Count
    iterations: Count
    traced_iterations: Count
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


def _build_work_document(work: StepWork | None) -> WorkDocument | None:
    if work is None:
        return None
    return {
        "model_flops": work.model_flops,
        "tokens": work.tokens,
        "precision": work.precision,
        "formula": work.formula,
    }


def _build_environment_document(run: Run) -> EnvironmentDocument:
    machine = run.manifest.environment
    return {
        "gpu": machine.gpu.name if machine.gpu else None,
        "compute_capability": list(machine.gpu.compute_capability) if machine.gpu else None,
        "gpu_memory": machine.gpu.memory_bytes if machine.gpu else None,
        "multiprocessors": machine.gpu.multiprocessors if machine.gpu else None,
        "gpu_count": machine.gpu_count,
        "driver": machine.driver,
        "cuda_driver": machine.cuda_driver,
        "cuda_runtime": machine.cuda_runtime,
        "cupti": machine.cupti,
        "torch": machine.torch,
        "cuda_bindings": machine.cuda_bindings,
        "python": machine.python,
        "cpu": machine.cpu,
        "cpu_count": machine.cpu_count,
        "os": machine.os,
        "nccl": machine.nccl,
    }


def _build_group_document(manifest: Manifest) -> GroupDocument | None:
    group = manifest.group
    if group is None:
        return None
    return {
        "world_size": group.world_size,
        "device": group.device,
        "settings": group.settings,
    }


def build_identity_document(run: Run) -> IdentityDocument:
    """Build the identity of a run, without metric values."""
    manifest = run.manifest
    return {
        "name": run.name,
        "path": display_path(run.path),
        "mode": manifest.mode.value,
        "rank": manifest.rank,
        "workload": manifest.workload.name,
        "status": manifest.status,
        "gpu": manifest.environment.gpu.name if manifest.environment.gpu else None,
        "created": manifest.created,
        "recorded": manifest.recorded,
        "failures": [
            {
                "stage": failure.during.value,
                "error": failure.error,
                "message": failure.message,
                "location": failure.location,
            }
            for failure in manifest.failures
        ],
        "absent": [{"fact": fact.fact, "reason": fact.reason} for fact in manifest.absent],
    }


def build_weakness_documents(run: RunComparison) -> list[WeaknessDocument]:
    """Build the reasons for low confidence in the run's metrics."""
    return [
        {
            "code": note.code,
            "text": note.text,
            "advice": note.advice,
            "metrics": list(note.metrics),
        }
        for note in describe_low_confidence(run.low_confidence)
    ]


def build_unseen_graphs_document(run: RunComparison) -> UnseenGraphsDocument | None:
    """Build the launches of graphs missing from the run; None if there are none."""
    for reason in run.low_confidence:
        if isinstance(reason, UnknownGraphs):
            share = reason.time_share
            return {
                "launches": reason.count,
                "total_launches": reason.launches,
                "time_share": share,
            }
    return None


def build_time_breakdown(where: TimeByCategory) -> TimeByCategoryDocument:
    """Build the breakdown of a step's time, in ns."""
    return {
        "step": simplify_number(where.step_ns),
        "busy": simplify_number(where.busy_ns),
        "parts": {part.category.value: part.ns for part in where.parts},
        "rank_wait": simplify_number(where.waiting_ns),
        "idle": simplify_number(where.idle_ns),
        "excess": simplify_number(where.excess_ns),
        "profiled": where.profiled,
    }


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
    manifest = result.run.manifest
    work = manifest.workload
    return {
        **build_identity_document(result.run),
        "sentence": describe_run(result),
        "factory": work.factory,
        "seed": work.seed,
        "parameters": dict(work.parameters),
        "work": _build_work_document(work.work),
        "warmup": work.warmup,
        "iterations": work.iterations,
        "traced_iterations": work.traced_iterations,
        "command": list(manifest.command),
        "tool_version": manifest.tool_version,
        "environment": _build_environment_document(result.run),
        "group": _build_group_document(manifest),
        "metrics": build_figures_document(figures),
        "time_breakdown": convert_value(result.time_by_category, build_time_breakdown),
        "time_breakdown_reason": get_reason(result.time_by_category),
        "integrity": None
        if result.integrity is None
        else build_integrity_document(result.integrity),
        "caveats": build_weakness_documents(result),
        "missing_graphs": build_unseen_graphs_document(result),
        "graphs": [
            build_graph_document(
                result.run,
                table,
                measured.get(table.graph.id),
                parallel.get(table.graph.id),
                count,
            )
            for table in tables
        ],
        "node_ids": build_agreement_document(result.run),
    }
