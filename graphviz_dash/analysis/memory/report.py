"""Memory breakdown of a run, and memory cost of CUDA graphs relative to the baseline.

Shows the moment of an iteration with the largest allocation of the default pool. Parts add up to
the process's device memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing, explain_other_program
from graphviz_dash.analysis.memory.pools import (
    GraphFootprint,
    PoolBreakdown,
    compute_footprints,
    compute_pool_breakdowns,
)
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value, make_value
from graphviz_dash.analysis.metrics.run_selection import has_other_program
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.memory import DEFAULT_POOL, Owner, Stage
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.units import format_bytes

if TYPE_CHECKING:
    from graphviz_dash.model.memory import MemoryPass, MemoryStage
    from graphviz_dash.model.run import Run


class MemoryPart(StrEnum):
    """Part of a run's memory; every device byte of the process is in exactly one part."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer state"
    TENSORS = "other tensors"
    WORKSPACES = "library workspaces"
    ACTIVATIONS = "activations"
    EXCLUSIVE = "pools, one graph"
    SHARED = "pools, shared"
    UNUSED = "pools, unused"
    CACHE = "allocator cache"
    OUTSIDE = "outside the allocator"


ACTIVATION_PARTS: Final = (
    MemoryPart.ACTIVATIONS,
    MemoryPart.EXCLUSIVE,
    MemoryPart.SHARED,
    MemoryPart.UNUSED,
)
"""Parts between which a capture moves activations."""


class _MemoryParts:
    """Device memory or a memory difference in parts; covers all processes unless ``alone``."""

    parts: Mapping[MemoryPart, int]
    is_process_only: bool

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(self.parts.values())

    @property
    def reserved(self) -> int:
        """Memory reserved by the allocator while the run iterates."""
        return self.total - self.parts[MemoryPart.OUTSIDE]

    @property
    def process_bytes(self) -> int:
        """Memory known to belong to this process: ``total`` if ``alone``, else ``reserved``."""
        return self.total if self.is_process_only else self.reserved


class MemoryReport(Struct, _MemoryParts, frozen=True):
    """Memory of one run, in bytes."""

    run: str
    """Name of the run."""
    mode: ExecutionMode
    """Execution mode."""
    parts: Mapping[MemoryPart, int]
    """Size of every MemoryPart; they add up to ``total``."""
    pools: tuple[PoolBreakdown, ...]
    """Private pools, by id."""
    graphs: tuple[GraphFootprint, ...]
    """Pool usage of each graph, in capture order."""
    stages: tuple[MemoryStage, ...]
    """Stages of the memory pass."""
    method: str
    """Measurement method of the pass."""
    is_process_only: bool
    """True if the driver reports the memory of this process; otherwise ``total`` covers all
    processes."""

    def get_stage(self, stage: Stage) -> MemoryStage:
        """Return one stage of the pass."""
        return {row.stage: row for row in self.stages}[stage]


class MemoryDifference(Struct, _MemoryParts, frozen=True):
    """Memory difference of a run from its baseline, in bytes; negative for less memory."""

    run: str
    """Name of the run."""
    baseline: str
    """Name of the baseline."""
    parts: Mapping[MemoryPart, int]
    """Difference of every MemoryPart; they add up to ``total``."""
    activation_overhead: float | Missing
    """Activation overhead as a fraction.

    Missing if the baseline has almost no activations, and in mode compile.
    """
    is_process_only: bool
    """True if the memory of the own process is known for both runs."""


def build_memory_report(run: Run) -> MemoryReport | Missing:
    """Build the memory report of ``run``, or explain why it is unavailable."""
    memory_pass = run.memory_pass
    if memory_pass is None:
        return explain_missing(run, Fact.MEMORY_PASS)
    pools = compute_pool_breakdowns(memory_pass)
    last = memory_pass.stages[-1]
    return MemoryReport(
        run=run.name,
        mode=run.mode,
        parts=_compute_parts(memory_pass, pools, last),
        pools=pools,
        graphs=compute_footprints(memory_pass),
        stages=memory_pass.stages,
        method=memory_pass.method,
        is_process_only=last.process_used_bytes is not None,
    )


def _compute_parts(
    memory_pass: MemoryPass, pools: tuple[PoolBreakdown, ...], last: MemoryStage
) -> dict[MemoryPart, int]:
    at_peak = dict.fromkeys(Owner, 0)
    for part in memory_pass.owners_at_peak:
        if part.pool == DEFAULT_POOL:
            at_peak[part.owner] += part.bytes
    in_pools = {owner: sum(pool.owned[owner] for pool in pools) for owner in Owner}
    private_bytes = sum(pool.reserved for pool in pools)
    return {
        MemoryPart.WEIGHTS: at_peak[Owner.WEIGHTS] + in_pools[Owner.WEIGHTS],
        MemoryPart.GRADIENTS: at_peak[Owner.GRADIENTS] + in_pools[Owner.GRADIENTS],
        MemoryPart.OPTIMIZER: at_peak[Owner.OPTIMIZER] + in_pools[Owner.OPTIMIZER],
        MemoryPart.TENSORS: at_peak[Owner.TENSORS]
        + at_peak[Owner.BUFFERS]
        + in_pools[Owner.BUFFERS],
        MemoryPart.WORKSPACES: at_peak[Owner.UNOWNED] + sum(pool.workspaces for pool in pools),
        MemoryPart.ACTIVATIONS: at_peak[Owner.TRANSIENT],
        MemoryPart.EXCLUSIVE: sum(pool.exclusive for pool in pools),
        MemoryPart.SHARED: sum(pool.shared for pool in pools),
        MemoryPart.UNUSED: sum(pool.unused for pool in pools),
        MemoryPart.CACHE: last.reserved_bytes - private_bytes - sum(at_peak.values()),
        MemoryPart.OUTSIDE: (last.process_used_bytes or last.device_used_bytes)
        - last.reserved_bytes,
    }


def compare_reports(report: MemoryReport, base: MemoryReport) -> MemoryDifference:
    """Compare ``report`` with ``base``; covers all processes if only one of them knows its own."""
    parts = {part: report.parts[part] - base.parts[part] for part in MemoryPart}
    if report.is_process_only != base.is_process_only:
        final_stage, base_stage = report.stages[-1], base.stages[-1]
        grown_outside = final_stage.device_used_bytes - base_stage.device_used_bytes
        parts[MemoryPart.OUTSIDE] = grown_outside - (
            final_stage.reserved_bytes - base_stage.reserved_bytes
        )
    return MemoryDifference(
        run=report.run,
        baseline=base.run,
        parts=parts,
        activation_overhead=_compute_overhead(report, base, parts),
        is_process_only=report.is_process_only and base.is_process_only,
    )


_SEGMENT: Final = 2 << 20
"""Smallest allocation of torch's allocator on the device (kSmallBuffer, CUDACachingAllocator)."""


def _compute_overhead(
    report: MemoryReport, base: MemoryReport, parts: Mapping[MemoryPart, int]
) -> float | Missing:
    activations = base.parts[MemoryPart.ACTIVATIONS]
    if not activations:
        return _explain_no_overhead(f"{base.run} has no activations at its peak")
    if activations < _SEGMENT:
        return _explain_no_overhead(
            f"{base.run} has {format_bytes(activations)} of activations, less than the minimum "
            f"allocation of {format_bytes(_SEGMENT)}, so rounding dominates"
        )
    # cudagraph trees release the blocks of their pool after each capture, so library workspaces and
    # activations cannot be distinguished.
    if any(side.mode.has_graph_trees for side in (report, base)):
        return _explain_no_overhead("cudagraph trees do not record live memory in their pool")
    return sum(parts[part] for part in (*ACTIVATION_PARTS, MemoryPart.TENSORS)) / activations


def _explain_no_overhead(reason: str) -> Missing:
    return Missing(Fact.ACTIVATION_OVERHEAD, reason)


_PROCESS_METRICS: Final[dict[str, Callable[[MemoryReport], int]]] = {
    "iterate_reserved": lambda report: report.reserved,
    "activation_memory": lambda report: report.parts[MemoryPart.ACTIVATIONS],
    "pool_exclusive": lambda report: report.parts[MemoryPart.EXCLUSIVE],
    "pool_shared": lambda report: report.parts[MemoryPart.SHARED],
    "pool_unused": lambda report: report.parts[MemoryPart.UNUSED],
    "workspace_memory": lambda report: report.parts[MemoryPart.WORKSPACES],
    "prepare_peak": lambda report: report.get_stage(Stage.PREPARE).peak_reserved_bytes,
}

_EXCLUSIVE_METRICS: Final[dict[str, Callable[[MemoryReport], int]]] = {
    "device_memory": lambda report: report.total,
    "outside_allocator": lambda report: report.parts[MemoryPart.OUTSIDE],
}
"""Metrics that need the memory of the process alone."""

_SHARED_DEVICE: Final = Missing(
    Fact.PROCESS_MEMORY,
    "the driver does not list the process, and other processes may use the device",
)

RELATIVE_MEMORY_METRICS: Final = (
    "device_memory_change",
    "iterate_reserved_change",
    "activation_overhead",
)
"""Metrics of this module that need a baseline."""


def compute_pool_metrics(run: Run) -> Iterator[MetricValue]:
    """Compute the memory pass metrics that need no baseline."""
    report = build_memory_report(run)
    for metric, read in (_PROCESS_METRICS | _EXCLUSIVE_METRICS).items():
        if isinstance(report, Missing):
            yield make_missing_value(metric, report)
        elif metric in _EXCLUSIVE_METRICS and not report.is_process_only:
            yield make_missing_value(metric, _SHARED_DEVICE)
        else:
            yield make_value(metric, read(report))


def compute_relative_memory_metrics(run: Run, baseline: Run | Missing) -> Iterator[MetricValue]:
    """Compute the MEMORY_RELATIVE metrics; ``against`` is the baseline, or why there is none."""
    report, base = build_memory_report(run), _build_baseline_report(run, baseline)
    if isinstance(report, Missing):
        yield from _mark_absent(report)
        return
    if isinstance(base, Missing):
        yield from _mark_absent(base)
        return
    change = compare_reports(report, base)
    if change.is_process_only:
        yield make_value("device_memory_change", change.total)
    else:
        yield make_missing_value("device_memory_change", _SHARED_DEVICE)
    yield make_value("iterate_reserved_change", change.reserved)
    if isinstance(change.activation_overhead, Missing):
        yield make_missing_value("activation_overhead", change.activation_overhead)
    else:
        yield make_value("activation_overhead", change.activation_overhead)


def _mark_absent(missing: Missing) -> Iterator[MetricValue]:
    return (make_missing_value(metric, missing) for metric in RELATIVE_MEMORY_METRICS)


def _build_baseline_report(run: Run, baseline: Run | Missing) -> MemoryReport | Missing:
    if isinstance(baseline, Missing):
        return baseline
    if has_other_program(run, baseline):
        return explain_other_program(baseline)
    report = build_memory_report(baseline)
    return (
        report.add_owner(f"the baseline {baseline.name}") if isinstance(report, Missing) else report
    )
