"""Memory breakdown of a run, and memory cost of CUDA graphs relative to the baseline.

Shows the moment of an iteration with the largest allocation of the default pool. Parts add up to
the process's device memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.memory.pools import (
    GraphFootprint,
    PoolBreakdown,
    graph_footprints,
    pool_breakdowns,
)
from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, present
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


GRAPHED_PARTS: Final = (
    MemoryPart.ACTIVATIONS,
    MemoryPart.EXCLUSIVE,
    MemoryPart.SHARED,
    MemoryPart.UNUSED,
)
"""Parts between which a capture moves activations."""


class _InParts:
    """Device memory or a memory difference in parts; covers all processes unless ``alone``."""

    parts: Mapping[MemoryPart, int]
    alone: bool

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(self.parts.values())

    @property
    def reserved(self) -> int:
        """Memory reserved by the allocator while the run iterates."""
        return self.total - self.parts[MemoryPart.OUTSIDE]

    @property
    def own(self) -> int:
        """Memory known to belong to this process: ``total`` if ``alone``, else ``reserved``."""
        return self.total if self.alone else self.reserved


class MemoryReport(Struct, _InParts, frozen=True):
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
    alone: bool
    """True if the driver reports the memory of this process; otherwise ``total`` covers all
    processes."""

    def stage(self, stage: Stage) -> MemoryStage:
        """Return one stage of the pass."""
        return {row.stage: row for row in self.stages}[stage]


class MemoryDifference(Struct, _InParts, frozen=True):
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
    alone: bool
    """True if the memory of the own process is known for both runs."""


def memory_report(run: Run) -> MemoryReport | Missing:
    """Build the memory report of ``run``, or explain why it is unavailable."""
    memory_pass = run.memory_pass
    if memory_pass is None:
        return why_missing(run, Fact.MEMORY_PASS)
    pools = pool_breakdowns(memory_pass)
    last = memory_pass.stages[-1]
    return MemoryReport(
        run=run.name,
        mode=run.mode,
        parts=_parts(memory_pass, pools, last),
        pools=pools,
        graphs=graph_footprints(memory_pass),
        stages=memory_pass.stages,
        method=memory_pass.method,
        alone=last.process_used_bytes is not None,
    )


def _parts(
    memory_pass: MemoryPass, pools: tuple[PoolBreakdown, ...], last: MemoryStage
) -> dict[MemoryPart, int]:
    at_peak = dict.fromkeys(Owner, 0)
    for part in memory_pass.at_peak:
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


def memory_difference(report: MemoryReport, base: MemoryReport) -> MemoryDifference:
    """Compare ``report`` with ``base``; covers all processes if only one of them knows its own."""
    parts = {part: report.parts[part] - base.parts[part] for part in MemoryPart}
    if report.alone != base.alone:
        final_stage, base_stage = report.stages[-1], base.stages[-1]
        grown_outside = final_stage.device_used_bytes - base_stage.device_used_bytes
        parts[MemoryPart.OUTSIDE] = grown_outside - (
            final_stage.reserved_bytes - base_stage.reserved_bytes
        )
    return MemoryDifference(
        run=report.run,
        baseline=base.run,
        parts=parts,
        activation_overhead=_overhead(report, base, parts),
        alone=report.alone and base.alone,
    )


_SEGMENT: Final = 2 << 20
"""Smallest allocation of torch's allocator on the device (kSmallBuffer, CUDACachingAllocator)."""


def _overhead(
    report: MemoryReport, base: MemoryReport, parts: Mapping[MemoryPart, int]
) -> float | Missing:
    activations = base.parts[MemoryPart.ACTIVATIONS]
    if not activations:
        return _no_overhead(f"{base.run} has no activations at its peak")
    if activations < _SEGMENT:
        return _no_overhead(
            f"{base.run} has {format_bytes(activations)} of activations, less than the minimum "
            f"allocation of {format_bytes(_SEGMENT)}, so rounding dominates"
        )
    # cudagraph trees release the blocks of their pool after each capture, so library workspaces and
    # activations cannot be distinguished.
    if any(side.mode.has_graph_trees for side in (report, base)):
        return _no_overhead("cudagraph trees do not record live memory in their pool")
    return sum(parts[part] for part in (*GRAPHED_PARTS, MemoryPart.TENSORS)) / activations


def _no_overhead(reason: str) -> Missing:
    return Missing(Fact.ACTIVATION_OVERHEAD, reason)


_OWN: Final[dict[str, Callable[[MemoryReport], int]]] = {
    "iterate_reserved": lambda report: report.reserved,
    "activation_memory": lambda report: report.parts[MemoryPart.ACTIVATIONS],
    "pool_exclusive": lambda report: report.parts[MemoryPart.EXCLUSIVE],
    "pool_shared": lambda report: report.parts[MemoryPart.SHARED],
    "pool_unused": lambda report: report.parts[MemoryPart.UNUSED],
    "workspace_memory": lambda report: report.parts[MemoryPart.WORKSPACES],
    "prepare_peak": lambda report: report.stage(Stage.PREPARE).peak_reserved_bytes,
}

_ALONE: Final[dict[str, Callable[[MemoryReport], int]]] = {
    "device_memory": lambda report: report.total,
    "outside_allocator": lambda report: report.parts[MemoryPart.OUTSIDE],
}
"""Metrics that need the memory of the process alone."""

_NOT_ALONE: Final = Missing(
    Fact.EXCLUSIVE_MEMORY,
    "the driver does not list the process, and other processes may use the device",
)

MEMORY_RELATIVE: Final = (
    "device_memory_change",
    "iterate_reserved_change",
    "activation_overhead",
)
"""Metrics of this module that need a baseline."""


def memory_pass_figures(run: Run) -> Iterator[Figure]:
    """Compute the memory pass metrics that need no baseline."""
    report = memory_report(run)
    for metric, read in (_OWN | _ALONE).items():
        if isinstance(report, Missing):
            yield absent(metric, report)
        elif metric in _ALONE and not report.alone:
            yield absent(metric, _NOT_ALONE)
        else:
            yield present(metric, read(report))


def memory_relative_figures(run: Run, against: Run | Missing) -> Iterator[Figure]:
    """Compute the MEMORY_RELATIVE metrics; ``against`` is the baseline, or why there is none."""
    report, base = memory_report(run), _baseline_report(against)
    if isinstance(report, Missing):
        yield from _without(report)
        return
    if isinstance(base, Missing):
        yield from _without(base)
        return
    change = memory_difference(report, base)
    if change.alone:
        yield present("device_memory_change", change.total)
    else:
        yield absent("device_memory_change", _NOT_ALONE)
    yield present("iterate_reserved_change", change.reserved)
    if isinstance(change.activation_overhead, Missing):
        yield absent("activation_overhead", change.activation_overhead)
    else:
        yield present("activation_overhead", change.activation_overhead)


def _without(missing: Missing) -> Iterator[Figure]:
    return (absent(metric, missing) for metric in MEMORY_RELATIVE)


def _baseline_report(against: Run | Missing) -> MemoryReport | Missing:
    if isinstance(against, Missing):
        return against
    report = memory_report(against)
    return report.of(f"the baseline {against.name}") if isinstance(report, Missing) else report
