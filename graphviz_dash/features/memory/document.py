"""JSON of ``graphviz-dash memory`` (docs/reference/json.md); sizes in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import field

from graphviz_dash.analysis.ledger.fit import FitPrediction
from graphviz_dash.analysis.ledger.report import LedgerReport
from graphviz_dash.analysis.memory.report import MemoryReport
from graphviz_dash.exports.documents.figures import ExperimentDocument
from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    Document,
    Fraction,
    Sentence,
    build,
    display_path,
)
from graphviz_dash.features.ledger.document import LedgerDocument, build_ledger_document
from graphviz_dash.features.memory.comparison import MemoryComparison
from graphviz_dash.features.memory.narrative import describe_memory_cost, describe_snapshot
from graphviz_dash.features.memory.snapshots import list_snapshots
from graphviz_dash.model.run import Experiment, MemoryUse


class MemoryStageDocument(Document, frozen=True):
    """Allocator and device memory at the end of a stage of the memory pass."""

    stage: str
    peak_allocated_bytes: Bytes = field(name="peak_allocated")
    peak_reserved_bytes: Bytes = field(name="peak_reserved")
    allocated_bytes: Bytes = field(name="allocated")
    reserved_bytes: Bytes = field(name="reserved")
    device_used_bytes: Bytes = field(name="device_used")
    process_used_bytes: Bytes | None = field(name="process_used")


class PoolDocument(Document, frozen=True):
    """A private graph pool."""

    id: list[int]
    segments: Count
    reserved: Bytes
    graphs: Count
    exclusive: Bytes
    shared: Bytes
    unused: Bytes
    workspaces: Bytes
    owned: dict[str, Bytes] = field(name="by_owner")


class GraphMemoryDocument(Document, frozen=True):
    """Part of its pool that one graph uses."""

    graph: str = field(name="id")
    pool: list[int] | None
    footprint: Bytes
    exclusive: Bytes
    shared: Bytes
    live_after_capture: Bytes = field(name="retained")
    peak: Bytes
    allocations: Count
    instantiate_device: Bytes | None


class RunMemoryDocument(Document, frozen=True):
    """Device memory of one run, in parts that add up to its total."""

    run: str = field(name="name")
    mode: str
    total: Bytes
    is_process_only: bool = field(name="process_only")
    reserved: Bytes
    parts: dict[str, Bytes]
    baseline: str | None
    process_bytes: Bytes | None = field(name="change")
    peak_change: Bytes | None
    part_changes: dict[str, Bytes] | None
    activation_overhead: Fraction | None
    stages: list[MemoryStageDocument]
    pools: list[PoolDocument]
    graphs: list[GraphMemoryDocument]
    total_graphs: Count
    method: Sentence


class MemoryShareDocument(Document, frozen=True):
    """Live memory of one stream, pool, range of block sizes or line."""

    label: str
    blocks: Count
    live_bytes: Bytes = field(name="live")
    reserved_bytes: Bytes | None = field(name="reserved")


class LiveMemoryDocument(Document, frozen=True):
    """Live blocks of a snapshot; each list adds up to all of them unless it was shortened."""

    streams: list[MemoryShareDocument]
    pools: list[MemoryShareDocument]
    sizes: list[MemoryShareDocument]
    lines: list[MemoryShareDocument]
    total_lines: Count


class SnapshotDocument(Document, frozen=True):
    """Allocator memory at the time of an imported snapshot."""

    run: str = field(name="name")
    allocated_bytes: Bytes = field(name="allocated")
    reserved_bytes: Bytes = field(name="reserved")
    peak_allocated_bytes: Bytes | None = field(name="peak_allocated")
    peak_reserved_bytes: Bytes | None = field(name="peak_reserved")
    live: LiveMemoryDocument | None


class MemoryDocument(Document, frozen=True):
    """Memory breakdown of an experiment's runs."""

    experiment: ExperimentDocument
    sentence: Sentence
    runs: list[RunMemoryDocument]
    snapshots: list[SnapshotDocument]
    ledgers: list[LedgerDocument]
    unavailable: dict[str, Sentence]


def build_memory_document(
    experiment: Experiment,
    result: MemoryComparison,
    ledgers: Sequence[tuple[LedgerReport, FitPrediction | None]],
    count: int,
) -> MemoryDocument:
    """Build the memory document; ``count`` limits the graphs per run."""
    return MemoryDocument(
        experiment=ExperimentDocument(name=experiment.name, path=display_path(experiment.path)),
        sentence=describe_memory_cost(result),
        runs=[_build_run(result, report, count) for report in result.reports],
        snapshots=[
            _build_snapshot(name, use, count) for name, use in list_snapshots(experiment.runs)
        ],
        ledgers=[build_ledger_document(report, count, fit) for report, fit in ledgers],
        unavailable={name: missing.reason for name, missing in result.missing.items()},
    )


def build_snapshot_document(path: Path, use: MemoryUse, count: int) -> MemoryDocument:
    """Build the memory document of the snapshot at ``path``; ``count`` limits its lines."""
    return MemoryDocument(
        experiment=ExperimentDocument(name=path.name, path=display_path(path)),
        sentence=describe_snapshot(use),
        runs=[],
        snapshots=[_build_snapshot(path.name, use, count)],
        ledgers=[],
        unavailable={},
    )


def _build_snapshot(name: str, use: MemoryUse, count: int) -> SnapshotDocument:
    return build(
        SnapshotDocument,
        use,
        run=name,
        live=None
        if use.live is None
        else build(
            LiveMemoryDocument,
            use.live,
            lines=use.live.lines[:count],
            total_lines=len(use.live.lines),
        ),
    )


def _build_run(result: MemoryComparison, report: MemoryReport, count: int) -> RunMemoryDocument:
    change = result.get_difference(report.run)
    peak_change = result.runs[report.run]["peak_reserved_change"].value
    return build(
        RunMemoryDocument,
        report,
        change,
        peak_change=None if peak_change is None else int(peak_change),
        process_bytes=change and change.process_bytes,
        part_changes=change and change.parts,
        pools=[build(PoolDocument, pool, graphs=len(pool.graphs)) for pool in report.pools],
        graphs=sorted(report.graphs, key=lambda graph: -graph.footprint)[:count],
        total_graphs=len(report.graphs),
    )
