"""Build the JSON of ``graphviz-dash memory`` (docs/reference/json.md); sizes in bytes."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.memory.pools import GraphFootprint, PoolBreakdown
from graphviz_dash.analysis.memory.report import MemoryDifference, MemoryReport
from graphviz_dash.exports.documents.figures import ExperimentDocument
from graphviz_dash.exports.documents.values import Bytes, Count, Fraction, Sentence, display_path
from graphviz_dash.features.memory.comparison import MemoryComparison
from graphviz_dash.features.memory.narrative import describe_memory_cost
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.memory import MemoryStage
from graphviz_dash.model.run import Experiment


class MemoryStageDocument(TypedDict):
    """Allocator and device memory at the end of a stage of the memory pass."""

    stage: str
    peak_allocated: Bytes
    peak_reserved: Bytes
    allocated: Bytes
    reserved: Bytes
    device_used: Bytes
    process_used: Bytes | None


class PoolDocument(TypedDict):
    """A private graph pool."""

    id: list[int]
    segments: Count
    reserved: Bytes
    graphs: Count
    exclusive: Bytes
    shared: Bytes
    unused: Bytes
    workspaces: Bytes
    by_owner: dict[str, Bytes]


class GraphMemoryDocument(TypedDict):
    """Part of its pool that one graph uses."""

    id: str
    pool: list[int] | None
    footprint: Bytes
    exclusive: Bytes
    shared: Bytes
    retained: Bytes
    peak: Bytes
    allocations: Count
    instantiate_device: Bytes | None


class RunMemoryDocument(TypedDict):
    """Device memory of one run, in parts that add up to its total."""

    name: str
    mode: str
    total: Bytes
    process_only: bool
    reserved: Bytes
    parts: dict[str, Bytes]
    baseline: str | None
    change: Bytes | None
    peak_change: Bytes | None
    part_changes: dict[str, Bytes] | None
    activation_overhead: Fraction | None
    stages: list[MemoryStageDocument]
    pools: list[PoolDocument]
    graphs: list[GraphMemoryDocument]
    total_graphs: Count
    method: Sentence


class MemoryDocument(TypedDict):
    """Memory breakdown of an experiment's runs."""

    experiment: ExperimentDocument
    sentence: Sentence
    runs: list[RunMemoryDocument]
    unavailable: dict[str, Sentence]


def build_memory_document(
    experiment: Experiment, result: MemoryComparison, count: int
) -> MemoryDocument:
    """Build the memory document; ``count`` limits the graphs per run."""
    return {
        "experiment": {"name": experiment.name, "path": display_path(experiment.path)},
        "sentence": describe_memory_cost(result),
        "runs": [_build_run(result, report, count) for report in result.reports],
        "unavailable": {name: missing.reason for name, missing in result.missing.items()},
    }


def _build_run(result: MemoryComparison, report: MemoryReport, count: int) -> RunMemoryDocument:
    change = result.get_difference(report.run)
    largest = sorted(report.graphs, key=lambda graph: -graph.footprint)[:count]
    return {
        "name": report.run,
        "mode": report.mode.value,
        "total": report.total,
        "process_only": report.is_process_only,
        "reserved": report.reserved,
        "parts": {part.value: size for part, size in report.parts.items()},
        "baseline": change.baseline if change else None,
        "change": change.process_bytes if change else None,
        "peak_change": _read_peak_change(result.runs[report.run]),
        "part_changes": {part.value: size for part, size in change.parts.items()}
        if change
        else None,
        "activation_overhead": None if change is None else _read_overhead(change),
        "stages": [_build_stage(stage) for stage in report.stages],
        "pools": [_build_pool(pool) for pool in report.pools],
        "graphs": [_build_graph(graph) for graph in largest],
        "total_graphs": len(report.graphs),
        "method": report.method,
    }


def _read_peak_change(run: RunComparison) -> int | None:
    change = run["peak_reserved_change"].value
    return None if change is None else int(change)


def _read_overhead(change: MemoryDifference) -> float | None:
    overhead = change.activation_overhead
    return None if isinstance(overhead, Missing) else overhead


def _build_stage(stage: MemoryStage) -> MemoryStageDocument:
    return {
        "stage": stage.stage.value,
        "peak_allocated": stage.peak_allocated_bytes,
        "peak_reserved": stage.peak_reserved_bytes,
        "allocated": stage.allocated_bytes,
        "reserved": stage.reserved_bytes,
        "device_used": stage.device_used_bytes,
        "process_used": stage.process_used_bytes,
    }


def _build_pool(pool: PoolBreakdown) -> PoolDocument:
    return {
        "id": list(pool.id),
        "segments": pool.segments,
        "reserved": pool.reserved,
        "graphs": len(pool.graphs),
        "exclusive": pool.exclusive,
        "shared": pool.shared,
        "unused": pool.unused,
        "workspaces": pool.workspaces,
        "by_owner": {owner.value: size for owner, size in pool.owned.items()},
    }


def _build_graph(graph: GraphFootprint) -> GraphMemoryDocument:
    return {
        "id": graph.graph,
        "pool": list(graph.pool) if graph.pool is not None else None,
        "footprint": graph.footprint,
        "exclusive": graph.exclusive,
        "shared": graph.shared,
        "retained": graph.live_after_capture,
        "peak": graph.peak,
        "allocations": graph.allocations,
        "instantiate_device": graph.instantiate_device,
    }
