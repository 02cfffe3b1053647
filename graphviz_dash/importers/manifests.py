"""Manifest of an imported run, from the metadata of its files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from graphviz_dash import __version__
from graphviz_dash.analysis.trace.steps import StepMethod, steps
from graphviz_dash.bundle.write import sha256_of
from graphviz_dash.importers.environment import (
    job_name,
    recorded_at,
    traced_environment,
    work_device,
)
from graphviz_dash.importers.group import SourceGroup, SourcePart
from graphviz_dash.importers.run_contents import RunContents
from graphviz_dash.ingest.formats.registry import reading_method
from graphviz_dash.ingest.kineto.trace_head import TraceHead, read_head
from graphviz_dash.model.run import (
    FORMAT_NAME,
    FORMAT_VERSION,
    ExecutionMode,
    FileRole,
    Manifest,
    RankGroup,
    Source,
    WorkloadInfo,
)
from graphviz_dash.model.trace import Trace

FACTORY: Final = "imported"


def _main_part(group: SourceGroup) -> SourcePart | None:
    """Return the part with the replay trace, otherwise the capture trace. None without a trace."""
    return group.trace(FileRole.REPLAY_TRACE) or group.trace(FileRole.CAPTURE_TRACE)


def trace_head_of(group: SourceGroup) -> TraceHead | None:
    """Read the head of the group's main trace. None without a trace."""
    part = _main_part(group)
    return read_head(part.content.trace_file) if part and part.content.trace_file else None


def imported_manifest(
    group: SourceGroup,
    contents: RunContents,
    sources: tuple[Source, ...],
    mode: ExecutionMode,
    command: tuple[str, ...],
) -> Manifest:
    """Build the manifest of a run imported from ``group`` by ``command``."""
    part = _main_part(group)
    trace = part.content.trace if part else None
    head = trace_head_of(group)
    rank = head.rank if head else None
    environment, recorded = traced_environment(trace, head), recorded_at(trace)
    gpu = environment.gpu.name if environment.gpu else None
    return Manifest(
        format=FORMAT_NAME,
        version=FORMAT_VERSION,
        tool_version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        workload=WorkloadInfo(
            name=group.name,
            factory=FACTORY,
            seed=None,
            warmup=0,
            iterations=0,
            traced_iterations=_marked_steps(trace) if trace else 0,
        ),
        mode=mode,
        rank=rank.rank if rank else None,
        group=RankGroup(
            rank.world_size, work_device(trace), {}, job_name(rank.world_size, gpu, recorded)
        )
        if rank
        else None,
        status="complete",
        failures=(),
        absent=contents.absent,
        environment=environment,
        files=(),
        sources=sources,
        recorded=recorded,
    )


def sources_of(group: SourceGroup) -> Iterator[Source]:
    """Yield each file of ``group`` once."""
    for part in {part.source: part for part in group.parts}.values():
        kind = part.content.kind
        size = part.source.stat().st_size
        yield Source(
            part.source.name, kind.value, size, sha256_of(part.source), reading_method(kind)
        )


def _marked_steps(trace: Trace) -> int:
    """Count the steps marked in the trace. 0 without marks."""
    marked = steps(trace)
    return 0 if not marked or marked[0].method is StepMethod.WHOLE else len(marked)
