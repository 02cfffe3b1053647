"""What a run's memory is made of, and what CUDA graphs cost in memory against the baseline.

From the memory pass. A run is looked at in the moment of an iteration at which most of the default
pool is allocated; private pools are reserved all the time. The parts add up to the device memory of
the process, so the difference of two runs is the sum of the differences of their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.memory.pools import GraphShare, PoolUse, graph_shares, pool_uses
from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, present
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.memory import DEFAULT_POOL, Owner, Stage
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.units import format_bytes, format_percent

if TYPE_CHECKING:
    from graphviz_dash.model.memory import MemoryPass, MemoryStage
    from graphviz_dash.model.run import Run


class Part(StrEnum):
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


MEANINGS: Final[Mapping[Part, str]] = {
    Part.WEIGHTS: "Storages of torch.nn.Parameter.",
    Part.GRADIENTS: "Their .grad, as far as it is alive at the step's peak. With "
    "zero_grad(set_to_none=True) an eager step has few of them then; a graph keeps theirs.",
    Part.OPTIMIZER: "Tensors in the state of optimizers.",
    Part.TENSORS: "Other live tensors of the default pool that outlast the step: inputs, buffers "
    "of modules, the static inputs that graphed callables copy into.",
    Part.WORKSPACES: "Live allocations that no Python tensor holds: workspaces of cuBLAS, one set "
    "for each stream, and so one more in the pool of each stream that captures.",
    Part.ACTIVATIONS: "Allocated and freed within a step, and alive at its peak: activations, "
    "temporaries, gradients of activations.",
    Part.EXCLUSIVE: "Places in private pools that the capture of exactly one graph allocated.",
    Part.SHARED: "Places in private pools that the captures of several graphs allocated, one after "
    "the other: graphs that run in capture order may share them.",
    Part.UNUSED: "Reserved by private pools, and no graph's: what rounding segments up leaves.",
    Part.CACHE: "Reserved in the default pool and free at the step's peak: for gradients and other "
    "tensors that come later in the step, or lost to fragmentation.",
    Part.OUTSIDE: "Device memory of the process less what the allocator reserved: CUDA context, "
    "loaded kernels, executable graphs, libraries' own memory. Where the driver does not list the "
    "process, all that the device has no longer free is taken, other processes included.",
}
"""What each part is, for pages and documentation."""

GRAPHED_PARTS: Final = (Part.ACTIVATIONS, Part.EXCLUSIVE, Part.SHARED, Part.UNUSED)
"""The parts between which a capture moves activations."""

PUBLISHED: Final = (
    "For graphs by layer NeMo's documentation says ~20% more memory for activations (GPT-3 20B on "
    "16 GH200 in FP8: another setup, see docs/gpt-training.md)"
)
"""What is known of others' activation overhead in mode partial; the source is on that page."""


class _InParts:
    """Device memory, or more or less of it, in parts; of all processes where not ``alone``."""

    parts: Mapping[Part, int]
    alone: bool

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(self.parts.values())

    @property
    def reserved(self) -> int:
        """What of it the allocator holds while the run iterates."""
        return self.total - self.parts[Part.OUTSIDE]

    @property
    def own(self) -> int:
        """What is surely this process's: ``total``, or ``reserved`` where it is not ``alone``."""
        return self.total if self.alone else self.reserved


@dataclass(frozen=True)
class MemoryReport(_InParts):
    """The memory of one run. ``parts`` has every Part and adds up to ``total``, in bytes.

    ``alone``: the driver told the memory of this process; else ``total`` has other processes too.
    """

    run: str
    mode: ExecutionMode
    parts: Mapping[Part, int]
    pools: tuple[PoolUse, ...]
    graphs: tuple[GraphShare, ...]
    stages: tuple[MemoryStage, ...]
    method: str
    alone: bool

    def stage(self, stage: Stage) -> MemoryStage:
        """One stage of the pass."""
        return {row.stage: row for row in self.stages}[stage]


@dataclass(frozen=True)
class MemoryDifference(_InParts):
    """A run against its baseline, in bytes: what it needs more, negative where it needs less.

    ``parts`` add up to ``total``; ``alone``: both know the memory of their own process.
    ``activation_overhead`` is None with a reason in ``overhead_reason`` where the baseline has
    next to no activations, and in mode compile; see the metric of that name.
    """

    run: str
    baseline: str
    parts: Mapping[Part, int]
    activation_overhead: float | None
    overhead_reason: str | None
    alone: bool


def memory_report(run: Run) -> MemoryReport | str:
    """The memory of ``run``, or why it cannot be told."""
    memory_pass = run.memory_pass
    if memory_pass is None:
        return why_missing(run, Fact.MEMORY_PASS).reason
    pools = pool_uses(memory_pass)
    last = memory_pass.stages[-1]
    return MemoryReport(
        run=run.name,
        mode=run.mode,
        parts=_parts(memory_pass, pools, last),
        pools=pools,
        graphs=graph_shares(memory_pass),
        stages=memory_pass.stages,
        method=memory_pass.method,
        alone=last.process_used_bytes is not None,
    )


def _parts(
    memory_pass: MemoryPass, pools: tuple[PoolUse, ...], last: MemoryStage
) -> dict[Part, int]:
    at_peak = dict.fromkeys(Owner, 0)
    for part in memory_pass.at_peak:
        if part.pool == DEFAULT_POOL:
            at_peak[part.owner] += part.bytes
    in_pools = {owner: sum(pool.owned[owner] for pool in pools) for owner in Owner}
    private = sum(pool.reserved for pool in pools)
    return {
        Part.WEIGHTS: at_peak[Owner.WEIGHTS] + in_pools[Owner.WEIGHTS],
        Part.GRADIENTS: at_peak[Owner.GRADIENTS] + in_pools[Owner.GRADIENTS],
        Part.OPTIMIZER: at_peak[Owner.OPTIMIZER] + in_pools[Owner.OPTIMIZER],
        Part.TENSORS: at_peak[Owner.TENSORS] + at_peak[Owner.BUFFERS] + in_pools[Owner.BUFFERS],
        Part.WORKSPACES: at_peak[Owner.UNOWNED] + sum(pool.workspaces for pool in pools),
        Part.ACTIVATIONS: at_peak[Owner.TRANSIENT],
        Part.EXCLUSIVE: sum(pool.exclusive for pool in pools),
        Part.SHARED: sum(pool.shared for pool in pools),
        Part.UNUSED: sum(pool.unused for pool in pools),
        Part.CACHE: last.reserved_bytes - private - sum(at_peak.values()),
        Part.OUTSIDE: (last.process_used_bytes or last.device_used_bytes) - last.reserved_bytes,
    }


def difference(report: MemoryReport, base: MemoryReport) -> MemoryDifference:
    """``report`` against ``base``; with all processes on the device where only one of the two
    knows its own."""
    parts = {part: report.parts[part] - base.parts[part] for part in Part}
    if report.alone != base.alone:
        own, before = report.stages[-1], base.stages[-1]
        grown_outside = own.device_used_bytes - before.device_used_bytes
        parts[Part.OUTSIDE] = grown_outside - (own.reserved_bytes - before.reserved_bytes)
    overhead = _overhead(report, base, parts)
    return MemoryDifference(
        run=report.run,
        baseline=base.run,
        parts=parts,
        activation_overhead=None if isinstance(overhead, str) else overhead,
        overhead_reason=overhead if isinstance(overhead, str) else None,
        alone=report.alone and base.alone,
    )


_SEGMENT: Final = 2 << 20
"""The least that torch's allocator takes from the device (kSmallBuffer in CUDACachingAllocator)."""


def _overhead(report: MemoryReport, base: MemoryReport, parts: Mapping[Part, int]) -> float | str:
    """The fraction, or why there is none."""
    activations = base.parts[Part.ACTIVATIONS]
    if not activations:
        return f"{base.run} has no activations at its peak"
    if activations < _SEGMENT:
        return (
            f"{base.run} has {format_bytes(activations)} of activations, less than the "
            f"{format_bytes(_SEGMENT)} that the allocator takes at a time: rounding outweighs them"
        )
    # The cudagraph trees give the blocks of their pool back after each capture: nothing tells its
    # library workspaces from activations.
    if ExecutionMode.COMPILE in (report.mode, base.mode):
        return "cudagraph trees keep no account of what is alive in their pool"
    return sum(parts[part] for part in (*GRAPHED_PARTS, Part.TENSORS)) / activations


def signed_bytes(count: int) -> str:
    """A difference in bytes, with its sign."""
    return f"+{format_bytes(count)}" if count > 0 else format_bytes(count)


def signed_percent(fraction: float) -> str:
    """A difference as a percentage, with its sign."""
    sign = "+" if fraction > 0 else "-" if fraction < 0 else ""
    return f"{sign}{format_percent(abs(fraction))}"


_OWN: Final[dict[str, Callable[[MemoryReport], int]]] = {
    "iterate_reserved": lambda report: report.reserved,
    "activation_memory": lambda report: report.parts[Part.ACTIVATIONS],
    "pool_exclusive": lambda report: report.parts[Part.EXCLUSIVE],
    "pool_shared": lambda report: report.parts[Part.SHARED],
    "pool_unused": lambda report: report.parts[Part.UNUSED],
    "workspace_memory": lambda report: report.parts[Part.WORKSPACES],
    "prepare_peak": lambda report: report.stage(Stage.PREPARE).peak_reserved_bytes,
}

_ALONE: Final[dict[str, Callable[[MemoryReport], int]]] = {
    "device_memory": lambda report: report.total,
    "outside_allocator": lambda report: report.parts[Part.OUTSIDE],
}
"""Figures that need the memory of the process by itself."""

_NOT_ALONE: Final = "the driver does not list the process, and others may be on the device"

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
        if isinstance(report, str):
            yield absent(metric, report)
        elif metric in _ALONE and not report.alone:
            yield absent(metric, _NOT_ALONE)
        else:
            yield present(metric, read(report))


def memory_relative_figures(run: Run, against: Run | str) -> Iterator[Figure]:
    """The figures of MEMORY_RELATIVE; ``against`` is the baseline, or why there is none."""
    report = memory_report(run)
    base = against if isinstance(against, str) else memory_report(against)
    if isinstance(report, str) or isinstance(base, str):
        if isinstance(report, str):
            reason = report
        elif isinstance(against, str):
            reason = against
        else:
            reason = f"the baseline {against.name}: {base}"
        for metric in MEMORY_RELATIVE:
            yield absent(metric, reason)
        return
    change = difference(report, base)
    if change.alone:
        yield present("device_memory_change", change.total)
    else:
        yield absent("device_memory_change", _NOT_ALONE)
    yield present("iterate_reserved_change", change.reserved)
    if change.overhead_reason is not None:
        yield absent("activation_overhead", change.overhead_reason)
    elif change.activation_overhead is not None:
        yield present("activation_overhead", change.activation_overhead)
