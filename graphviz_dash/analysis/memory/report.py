"""What a run's memory is made of, and what CUDA graphs cost in memory against the baseline.

From the memory pass. A run is looked at in the moment of an iteration at which most of the default
pool is allocated; private pools are reserved all the time. The parts add up to the device memory of
the process, so the difference of two runs is the sum of the differences of their parts.
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
    """A part of a run's memory; every byte of the process on the device is in exactly one."""

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
"""The parts between which a capture moves activations."""


class _InParts:
    """Device memory, or more or less of it, in parts; of all processes where not ``alone``."""

    parts: Mapping[MemoryPart, int]
    alone: bool

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(self.parts.values())

    @property
    def reserved(self) -> int:
        """What of it the allocator holds while the run iterates."""
        return self.total - self.parts[MemoryPart.OUTSIDE]

    @property
    def own(self) -> int:
        """What is surely this process's: ``total``, or ``reserved`` where it is not ``alone``."""
        return self.total if self.alone else self.reserved


class MemoryReport(Struct, _InParts, frozen=True):
    """The memory of one run, in bytes."""

    run: str
    """Name of the run."""
    mode: ExecutionMode
    """Its execution mode."""
    parts: Mapping[MemoryPart, int]
    """A size for every MemoryPart; they add up to ``total``."""
    pools: tuple[PoolBreakdown, ...]
    """Its private pools, by id."""
    graphs: tuple[GraphFootprint, ...]
    """What each graph uses of its pool, in the order of the captures."""
    stages: tuple[MemoryStage, ...]
    """The stages of the memory pass."""
    method: str
    """How the pass was measured."""
    alone: bool
    """Whether the driver gave the memory of this process; else ``total`` has other processes
    too."""

    def stage(self, stage: Stage) -> MemoryStage:
        """One stage of the pass."""
        return {row.stage: row for row in self.stages}[stage]


class MemoryDifference(Struct, _InParts, frozen=True):
    """A run against its baseline, in bytes: what it needs more, negative where it needs less."""

    run: str
    """Name of the run."""
    baseline: str
    """Name of the baseline."""
    parts: Mapping[MemoryPart, int]
    """A difference for every MemoryPart; they add up to ``total``."""
    activation_overhead: float | Missing
    """The metric of that name, as a fraction. Missing where the baseline has next to no
    activations, and in mode compile."""
    alone: bool
    """Whether both know the memory of their own process."""


def memory_report(run: Run) -> MemoryReport | Missing:
    """The memory of ``run``, or why it cannot be told."""
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
    private = sum(pool.reserved for pool in pools)
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
        MemoryPart.CACHE: last.reserved_bytes - private - sum(at_peak.values()),
        MemoryPart.OUTSIDE: (last.process_used_bytes or last.device_used_bytes)
        - last.reserved_bytes,
    }


def memory_difference(report: MemoryReport, base: MemoryReport) -> MemoryDifference:
    """``report`` against ``base``; with all processes on the device where only one of the two
    knows its own."""
    parts = {part: report.parts[part] - base.parts[part] for part in MemoryPart}
    if report.alone != base.alone:
        own, before = report.stages[-1], base.stages[-1]
        grown_outside = own.device_used_bytes - before.device_used_bytes
        parts[MemoryPart.OUTSIDE] = grown_outside - (own.reserved_bytes - before.reserved_bytes)
    return MemoryDifference(
        run=report.run,
        baseline=base.run,
        parts=parts,
        activation_overhead=_overhead(report, base, parts),
        alone=report.alone and base.alone,
    )


_SEGMENT: Final = 2 << 20
"""The least that torch's allocator takes from the device (kSmallBuffer in CUDACachingAllocator)."""


def _overhead(
    report: MemoryReport, base: MemoryReport, parts: Mapping[MemoryPart, int]
) -> float | Missing:
    """The change of what holds activations, as a fraction of the baseline's activations."""
    activations = base.parts[MemoryPart.ACTIVATIONS]
    if not activations:
        return _no_overhead(f"{base.run} has no activations at its peak")
    if activations < _SEGMENT:
        return _no_overhead(
            f"{base.run} has {format_bytes(activations)} of activations, less than the "
            f"{format_bytes(_SEGMENT)} that the allocator takes at a time: rounding outweighs them"
        )
    # The cudagraph trees give the blocks of their pool back after each capture: nothing tells its
    # library workspaces from activations.
    if any(side.mode.has_graph_trees for side in (report, base)):
        return _no_overhead("cudagraph trees keep no account of what is alive in their pool")
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
"""Figures that need the memory of the process by itself."""

_NOT_ALONE: Final = Missing(
    Fact.EXCLUSIVE_MEMORY,
    "the driver does not list the process, and others may be on the device",
)

MEMORY_RELATIVE: Final = (
    "device_memory_change",
    "iterate_reserved_change",
    "activation_overhead",
)
"""The metrics of this module that need a baseline."""


def memory_pass_figures(run: Run) -> Iterator[Figure]:
    """The figures of the memory pass that need no baseline."""
    report = memory_report(run)
    for metric, read in (_OWN | _ALONE).items():
        if isinstance(report, Missing):
            yield absent(metric, report)
        elif metric in _ALONE and not report.alone:
            yield absent(metric, _NOT_ALONE)
        else:
            yield present(metric, read(report))


def memory_relative_figures(run: Run, against: Run | Missing) -> Iterator[Figure]:
    """The figures of MEMORY_RELATIVE; ``against`` is the baseline, or why there is none."""
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
