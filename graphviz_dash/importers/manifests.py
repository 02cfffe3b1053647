"""Manifest of an imported run, from the metadata of its files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from graphviz_dash.analysis.trace.steps import StepMethod, find_steps
from graphviz_dash.bundle.write import compute_sha256, create_manifest
from graphviz_dash.importers.environment import (
    build_environment,
    find_main_device,
    format_job_name,
    get_recording_time,
)
from graphviz_dash.importers.group import SourceGroup, SourcePart
from graphviz_dash.importers.run_contents import RunContents
from graphviz_dash.ingest.formats.registry import get_reading_method
from graphviz_dash.ingest.kineto.trace_head import TraceHead, read_head
from graphviz_dash.model.run import (
    ExecutionMode,
    FileRole,
    Manifest,
    RankGroup,
    Source,
    WorkloadInfo,
)
from graphviz_dash.model.trace import Trace

IMPORTED_FACTORY: Final = "imported"
_SEPARATION: Final = "the events of one process in a merged trace"


def _get_main_part(group: SourceGroup) -> SourcePart | None:
    """Return the part with the replay trace, or else the capture trace, or None."""
    return group.get_trace(FileRole.REPLAY_TRACE) or group.get_trace(FileRole.CAPTURE_TRACE)


def read_trace_head(group: SourceGroup) -> TraceHead | None:
    """Read the head of the group's main trace. None without a trace."""
    part = _get_main_part(group)
    return read_head(part.content.trace_file) if part and part.content.trace_file else None


def build_imported_manifest(
    group: SourceGroup,
    contents: RunContents,
    sources: tuple[Source, ...],
    mode: ExecutionMode,
    command: tuple[str, ...],
) -> Manifest:
    """Build the manifest of a run imported from ``group`` by ``command``."""
    part = _get_main_part(group)
    trace = part.content.trace if part else None
    head = read_trace_head(group)
    rank = head.rank if head else None
    environment, recorded = build_environment(trace, head), get_recording_time(trace)
    gpu = environment.gpu.name if environment.gpu else None
    manifest = create_manifest(
        command,
        WorkloadInfo(
            name=group.name,
            factory=IMPORTED_FACTORY,
            seed=None,
            warmup=0,
            iterations=0,
            traced_iterations=_count_marked_steps(trace) if trace else 0,
        ),
        mode,
        environment,
        contents.absent,
    )
    if rank is None:
        return replace(manifest, sources=sources, recorded_at=recorded)
    job = format_job_name(rank.world_size, gpu, recorded)
    return replace(
        manifest,
        rank=rank.rank,
        group=RankGroup(rank.world_size, find_main_device(trace), {}, job),
        sources=sources,
        recorded_at=recorded,
    )


def iter_sources(group: SourceGroup) -> Iterator[Source]:
    """Yield each file of ``group`` once."""
    for part in {part.source: part for part in group.parts}.values():
        kind = part.content.kind
        size = part.source.stat().st_size
        yield Source(
            part.source.name,
            kind.value,
            size,
            compute_sha256(part.source),
            get_reading_method(kind) or (_SEPARATION if part.content.label else None),
        )


def _count_marked_steps(trace: Trace) -> int:
    """Count the marked steps."""
    marked = find_steps(trace)
    return 0 if not marked or marked[0].method is StepMethod.WHOLE else len(marked)
