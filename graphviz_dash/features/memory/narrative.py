"""Meaning of the parts of a run's memory and the memory cost of graphs, in sentences."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.memory.allocator import (
    AllocatorState,
    CapturedPools,
    list_allocator_states,
    sum_captured_pools,
)
from graphviz_dash.analysis.memory.report import (
    GraphFootprint,
    MemoryDifference,
    MemoryPart,
    MemoryReport,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.guidance.gaps import build_memory_command
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.memory import Stage
from graphviz_dash.narrative.columns import COUNT, MEBIBYTES, SIGNED_MEBIBYTES, Column
from graphviz_dash.narrative.memory_change import list_memory_changes
from graphviz_dash.units import (
    format_bytes,
    format_percent,
    format_signed_bytes,
    format_signed_percent,
    pluralize,
)

if TYPE_CHECKING:
    from graphviz_dash.features.memory.comparison import MemoryComparison
    from graphviz_dash.model.run import MemoryShare, MemoryUse, Run

PART_MEANINGS: Final[Mapping[MemoryPart, str]] = {
    MemoryPart.WEIGHTS: "Storages of torch.nn.Parameter.",
    MemoryPart.GRADIENTS: (
        "Their .grad tensors that are alive at the step's peak. With zero_grad(set_to_none=True), "
        "an eager step has few of them then; a graph keeps all."
    ),
    MemoryPart.OPTIMIZER: "Tensors in the state of optimizers.",
    MemoryPart.TENSORS: (
        "Other live tensors of the default pool that outlast the step: inputs, module buffers "
        "and the static inputs of graphed callables."
    ),
    MemoryPart.WORKSPACES: (
        "Live allocations without a Python tensor: cuBLAS workspaces, one set per "
        "stream, and one more in the pool of each stream that captures."
    ),
    MemoryPart.ACTIVATIONS: (
        "Memory allocated and freed within a step, and alive at its peak: activations, "
        "temporaries, gradients of activations."
    ),
    MemoryPart.EXCLUSIVE: (
        "Addresses in private pools that exactly one graph's capture allocated."
    ),
    MemoryPart.SHARED: (
        "Addresses in private pools that several graphs' captures allocated in succession: "
        "graphs that run in capture order may share them."
    ),
    MemoryPart.UNUSED: (
        "Memory reserved by private pools but used by no graph: the rounding of segments."
    ),
    MemoryPart.CACHE: (
        "Memory reserved in the default pool and free at the step's peak: for gradients and other "
        "tensors later in the step, or lost to fragmentation."
    ),
    MemoryPart.OUTSIDE: (
        "Device memory of the process minus the allocator's reservations: CUDA context, loaded "
        "kernels, executable graphs, library memory. If the driver does not list the process, this "
        "is all used device memory, other processes included."
    ),
}

PUBLISHED_OVERHEAD: Final = (
    "For per-layer graphs, NeMo's documentation reports ~20% more memory for activations (GPT-3 "
    "20B on 16 GH200 in FP8: another setup, see evaluation/reports/2026-11-21-gpt-training.md)"
)
"""Published activation overhead of mode partial.

Source: evaluation/reports/2026-11-21-gpt-training.md."""


def describe_memory_cost(comparison: MemoryComparison, run_name: str | None = None) -> str:
    """Describe the baselines and changes by graphs, peak first; printable.

    ``run_name`` restricts it to one run and its baseline.
    """
    reports, differences = comparison.reports, comparison.differences
    if not reports:
        runs = [run.run for run in comparison.runs.values()]
        sentences = [
            *map(describe_allocator, list_allocator_states(runs)),
            *(
                _describe_captured_pools(run.name, pools)
                for run in runs
                if run.memory is None and (pools := sum_captured_pools(run)) is not None
            ),
        ]
        return " ".join(sentences) or "No run has a memory pass"
    if run_name is not None:
        differences = tuple(change for change in differences if change.run == run_name)
        reports = (comparison[run_name],)
    baselines = list(dict.fromkeys(change.baseline for change in differences))
    uses = [
        _format_use(comparison[name]) for name in baselines or [report.run for report in reports]
    ]
    changes: dict[str, list[str]] = {}
    for difference in differences:
        run = comparison.runs[difference.run]
        for item in list_memory_changes(run):
            versus = f" vs {difference.baseline}" if len(baselines) > 1 else ""
            text = escape_control_characters(f"{difference.run} {item.text}{versus}")
            changes.setdefault(item.label, []).append(text)
    overheads = [
        escape_control_characters(
            f"{change.run} {format_signed_percent(change.activation_overhead)}"
        )
        for change in differences
        if not isinstance(change.activation_overhead, Missing)
    ]
    if overheads:
        changes["Activation overhead"] = overheads
    costs = [f"{label}: {', '.join(texts)}." for label, texts in changes.items()]
    return " ".join([f"{', '.join(uses)}{'.' if costs else ''}", *costs])


def _format_use(report: MemoryReport) -> str:
    size = format_bytes(report.process_bytes)
    kind = " of device memory" if report.is_process_only else ""
    verb = "uses" if report.is_process_only else "reserves"
    return f"{escape_control_characters(report.run)} {verb} {size}{kind} in steady state"


def describe_snapshot(use: MemoryUse) -> str:
    """Describe the memory at the time of a snapshot."""
    live = use.live
    if live is None:
        text = f"{format_bytes(use.allocated_bytes)} allocated"
    else:
        size = sum(share.live_bytes for share in live.pools)
        blocks = pluralize(sum(share.blocks for share in live.pools), "live block")
        text = f"{format_bytes(size)} in {blocks}"
    return f"{text} of {format_bytes(use.reserved_bytes)} reserved, at the time of the snapshot."


def _describe_captured_pools(run: str, pools: CapturedPools) -> str:
    """Describe the pools of a recorded program whose memory at exit is unknown."""
    return (
        f"{escape_control_characters(run)} grew {pluralize(pools.pools, 'private pool')} by "
        f"{format_bytes(pools.growth_bytes)} when it captured {pluralize(pools.graphs, 'graph')}; "
        "its memory at exit is unknown."
    )


def describe_allocator(use: AllocatorState) -> str:
    """Describe the allocator's statistics, graph pools first."""
    moment = "at the time of the snapshot" if use.is_snapshot else "at exit"
    text = f"{escape_control_characters(use.run)} reserves {format_bytes(use.reserved)} {moment}"
    if use.pools and use.reserved:
        text += (
            f", {format_bytes(use.private_reserved)} of it "
            f"({format_percent(use.private_reserved / use.reserved)}) in "
            f"{pluralize(use.pools, 'private pool')} for {pluralize(use.graphs, 'graph')}, with "
            f"{format_bytes(use.pools_allocated)} allocated between replays"
        )
    if use.peak_allocated is not None:
        text += f"; peak allocation: {format_bytes(use.peak_allocated)}"
    return f"{text}."


def summarize_allocators(uses: Sequence[AllocatorState]) -> str:
    """Describe the reserved memory of one run fully, of several runs by one figure each."""
    if len(uses) == 1:
        return describe_allocator(uses[0])
    sizes = [
        f"{escape_control_characters(use.run)} {format_bytes(use.reserved)}"
        + (" (at the time of a snapshot)" if use.is_snapshot else "")
        for use in uses
    ]
    return f"Reserved at exit: {', '.join(sizes)}."


def get_allocator_hint(runs: Sequence[Run]) -> str:
    """Explain how to record memory without a memory pass or statistics."""
    hint = "graphviz-dash collect --workload records a memory pass of each mode."
    if any(run.manifest.sources for run in runs):
        hint += (
            " A memory snapshot imported next to the trace also shows allocator memory and private "
            "pools: torch.cuda.memory._dump_snapshot writes one."
        )
    return hint


def build_memory_pass_hint(runs: Sequence[Run]) -> tuple[str, str]:
    """Return instruction and command for a memory pass; empty if there is no command."""
    if any(run.mode.is_recorded or run.manifest.sources for run in runs):
        return "graphviz-dash collect --workload records one for each mode.", ""
    return (
        "To record one for each mode, run on a machine with a CUDA GPU:",
        escape_control_characters(shlex.join(build_memory_command(runs))),
    )


class SizeRow(Struct, frozen=True):
    """A part of the memory, or a total."""

    title: str
    read: Callable[[MemoryReport | MemoryDifference], int]
    """Reads the size of a run, or its change, in bytes."""
    meaning: str = ""


def list_part_rows(reports: Sequence[MemoryReport]) -> list[SizeRow]:
    """List the parts that are not empty in all runs."""
    return [
        _build_part_row(part)
        for part in MemoryPart
        if any(report.parts[part] for report in reports)
    ]


def _build_part_row(part: MemoryPart) -> SizeRow:
    return SizeRow(part.value, lambda sizes: sizes.parts[part], PART_MEANINGS[part])


TOTAL_ROWS: Final = (
    SizeRow("reserved", lambda sizes: sizes.reserved),
    SizeRow("device memory", lambda sizes: sizes.total),
)


def list_size_columns(
    comparison: MemoryComparison, reports: Sequence[MemoryReport]
) -> list[Column[SizeRow]]:
    """List the columns of runs, with their changes."""
    columns: list[Column[SizeRow]] = [
        Column("", lambda row: row.title, explain=lambda row: row.meaning)
    ]
    for report in reports:
        columns += _list_run_columns(report, comparison.get_difference(report.run))
    return columns


def _list_run_columns(
    report: MemoryReport, change: MemoryDifference | None
) -> Iterator[Column[SizeRow]]:
    def format_change(row: SizeRow) -> str:
        return format_signed_bytes(size) if change and (size := row.read(change)) else ""

    yield Column(
        report.run, lambda row: row.read(report), MEBIBYTES, report.run, note=format_change
    )
    if change is not None:
        yield Column(None, lambda row: row.read(change), SIGNED_MEBIBYTES, "change", is_dim=True)


STAGE_LABELS: Final = {
    Stage.BUILD: "building model and inputs",
    Stage.WARM_UP: "warm-up",
    Stage.PREPARE: "after capture",
    Stage.ITERATE: "iterations",
}


def list_stage_columns(reports: Sequence[MemoryReport]) -> list[Column[Stage]]:
    """List the columns of runs with the peak of each stage."""
    return [
        Column("", lambda stage: STAGE_LABELS[stage]),
        *(_build_stage_column(report) for report in reports),
    ]


def _build_stage_column(report: MemoryReport) -> Column[Stage]:
    return Column(
        report.run,
        lambda stage: report.get_stage(stage).peak_reserved_bytes,
        MEBIBYTES,
        report.run,
    )


SHARE_COLUMNS: Final[tuple[Column[MemoryShare], ...]] = (
    Column("", lambda share: share.label),
    Column("Live", lambda share: share.live_bytes, MEBIBYTES),
    Column("Blocks", lambda share: share.blocks, COUNT),
    Column("Reserved", lambda share: share.reserved_bytes, MEBIBYTES),
)
GRAPH_COLUMNS: Final[tuple[Column[GraphFootprint], ...]] = (
    Column("Graph", lambda graph: graph.graph),
    Column("Used", lambda graph: graph.footprint, MEBIBYTES, "uses"),
    Column("Exclusive", lambda graph: graph.exclusive, MEBIBYTES),
    Column("Shared", lambda graph: graph.shared, MEBIBYTES),
    Column("Kept", lambda graph: graph.live_after_capture, MEBIBYTES),
    Column("Peak", lambda graph: graph.peak, MEBIBYTES),
    Column("Allocations", lambda graph: graph.allocations, COUNT),
    Column("Executable", lambda graph: graph.instantiate_device, MEBIBYTES, None),
)
