"""Build the JSON of a run: its work, environment, group and graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.low_confidence import UnseenGraphs
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.step_comparison.time_by_category import TimeByCategory
from graphviz_dash.exports.documents.figures import FigureDocument, figures_document
from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    FilePath,
    Fraction,
    Ns,
    Sentence,
    document_of,
    number,
    reason_of,
    shown,
)
from graphviz_dash.features.graph.document import (
    AgreementDocument,
    GraphDocument,
    agreement_document,
    graph_document,
)
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Manifest, Run, StepWork
from graphviz_dash.narrative.headline import run_sentence
from graphviz_dash.narrative.low_confidence import low_confidence_notes


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
    caveats: list[WeaknessDocument]
    missing_graphs: UnseenGraphsDocument | None
    graphs: list[GraphDocument]
    node_ids: AgreementDocument | None


def _work_document(work: StepWork | None) -> WorkDocument | None:
    if work is None:
        return None
    return {
        "model_flops": work.model_flops,
        "tokens": work.tokens,
        "precision": work.precision,
        "formula": work.formula,
    }


def _environment_document(run: Run) -> EnvironmentDocument:
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


def _group_document(manifest: Manifest) -> GroupDocument | None:
    group = manifest.group
    if group is None:
        return None
    return {
        "world_size": group.world_size,
        "device": group.device,
        "settings": group.settings,
    }


def identity_document(run: Run) -> IdentityDocument:
    """Build the identity of a run, without metric values."""
    manifest = run.manifest
    return {
        "name": run.name,
        "path": shown(run.path),
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


def weaknesses_document(run: RunComparison) -> list[WeaknessDocument]:
    """Build the reasons for low confidence in the run's metrics."""
    return [
        {
            "code": note.code,
            "text": note.text,
            "advice": note.advice,
            "metrics": list(note.metrics),
        }
        for note in low_confidence_notes(run.low_confidence)
    ]


def unseen_graphs_document(run: RunComparison) -> UnseenGraphsDocument | None:
    """Build the launches of graphs missing from the run; None if there are none."""
    for reason in run.low_confidence:
        if isinstance(reason, UnseenGraphs):
            share = reason.time_share
            return {
                "launches": reason.count,
                "total_launches": reason.launches,
                "time_share": share,
            }
    return None


def where_document(where: TimeByCategory) -> TimeByCategoryDocument:
    """Build the breakdown of a step's time, in ns."""
    return {
        "step": number(where.step_ns),
        "busy": number(where.busy_ns),
        "parts": {part.category.value: part.ns for part in where.parts},
        "rank_wait": number(where.waiting_ns),
        "idle": number(where.idle_ns),
        "excess": number(where.excess_ns),
        "profiled": where.profiled,
    }


def single_run_document(
    result: RunComparison,
    figures: Iterable[Figure],
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
        **identity_document(result.run),
        "sentence": run_sentence(result),
        "factory": work.factory,
        "seed": work.seed,
        "parameters": dict(work.parameters),
        "work": _work_document(work.work),
        "warmup": work.warmup,
        "iterations": work.iterations,
        "traced_iterations": work.traced_iterations,
        "command": list(manifest.command),
        "tool_version": manifest.tool_version,
        "environment": _environment_document(result.run),
        "group": _group_document(manifest),
        "metrics": figures_document(figures),
        "time_breakdown": document_of(result.where, where_document),
        "time_breakdown_reason": reason_of(result.where),
        "caveats": weaknesses_document(result),
        "missing_graphs": unseen_graphs_document(result),
        "graphs": [
            graph_document(
                result.run,
                table,
                measured.get(table.graph.id),
                parallel.get(table.graph.id),
                count,
            )
            for table in tables
        ],
        "node_ids": agreement_document(result.run),
    }
