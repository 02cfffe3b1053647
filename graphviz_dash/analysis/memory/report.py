"""Memory breakdown of a run, and memory cost of CUDA graphs relative to the baseline.

Shows the moment of an iteration with the largest allocation of the default pool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from graphviz_dash.analysis.absence import explain_missing, explain_other_program
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value, make_value
from graphviz_dash.analysis.metrics.run_selection import has_other_program
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.memory import DEFAULT_POOL, MemoryPass, MemoryStage, Owner, PoolId, Stage
from graphviz_dash.model.run import ExecutionMode, Run
from graphviz_dash.units import format_bytes

_MODEL_OWNERS: Final = frozenset({Owner.WEIGHTS, Owner.GRADIENTS, Owner.OPTIMIZER, Owner.BUFFERS})
"""Owners whose bytes count as theirs in any pool."""

NODE_BYTES: Final = 3_072
"""Device memory of one node of an executable, in bytes.

Source: evaluation/reports/2026-11-24-ladders.md, measured with torch 2.11 on H100 and H200."""


DRIVER_CHUNK: Final = 2 << 20
"""Size of the driver's chunks for executables, in bytes."""


class ByteCategory(StrEnum):
    """Category of pool bytes."""

    EXCLUSIVE = "of one graph"
    SHARED = "shared"
    UNUSED = "unused"
    WORKSPACE = "library workspaces"
    MODEL = "the model's own tensors"


class SegmentSpan(Struct, frozen=True):
    """Bytes of one segment with the same graphs and the same owner."""

    segment: int
    begin: int
    """Offset of the first byte in the segment."""
    end: int
    """Offset after the last byte."""
    graphs: tuple[str, ...]
    owner: Owner | None
    """Owner of a live allocation; None if there is none."""

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.end - self.begin

    @property
    def use(self) -> ByteCategory:
        """Category of the bytes."""
        if self.owner in _MODEL_OWNERS:
            return ByteCategory.MODEL
        if self.owner is Owner.UNOWNED:
            return ByteCategory.WORKSPACE
        if len(self.graphs) > 1:
            return ByteCategory.SHARED
        return ByteCategory.EXCLUSIVE if self.graphs else ByteCategory.UNUSED


class GraphFootprint(Struct, frozen=True):
    """Pool usage of one graph, in bytes."""

    graph: str
    pool: PoolId | None
    """None for a graph without a pool."""
    footprint: int
    """Total usage: ``exclusive`` plus ``shared``."""
    exclusive: int
    """Memory that no other graph uses."""
    shared: int
    """Memory that other graphs use too."""
    shared_with: tuple[str, ...]
    """These graphs, by name."""
    live_after_capture: int
    """At the end of the capture."""
    peak: int
    """Peak of live memory during the capture."""
    allocations: int
    instantiate_device: int | None
    """Device memory used by instantiation; None if not measured."""


class PoolBreakdown(Struct):
    """One private pool, in bytes; the fields after ``graphs`` add up to ``reserved``."""

    id: PoolId
    segments: int = 0
    reserved: int = 0
    """Size of the segments."""
    graphs: set[str] = field(default_factory=set)
    exclusive: int = 0
    """Used by one graph."""
    shared: int = 0
    """Used by several graphs."""
    unused: int = 0
    workspaces: int = 0
    """Live allocations without a tensor."""
    owned: dict[Owner, int] = field(default_factory=lambda: defaultdict(int))
    """Live weights, gradients, optimizer state and buffers."""


def iter_segment_spans(memory_pass: MemoryPass) -> Iterator[SegmentSpan]:
    """Split all private pools into spans, by segment and offset, without gaps or overlaps."""
    edges: list[list[tuple[int, bool, str | Owner]]] = [[] for _ in memory_pass.segments]
    for graph in memory_pass.graphs:
        for extent in graph.extents:
            edges[extent.segment] += [
                (extent.start, True, graph.graph),
                (extent.end, False, graph.graph),
            ]
    for block in memory_pass.live_extents:
        edges[block.segment] += [(block.start, True, block.owner), (block.end, False, block.owner)]
    for number, segment in enumerate(memory_pass.segments):
        graphs: dict[str, None] = {}
        owner: Owner | None = None
        start = 0
        # Ends sort before starts at the same offset.
        for offset, opens, user in sorted(
            edges[number], key=lambda edge: (edge[0], edge[1], str(edge[2]))
        ):
            if offset > start:
                yield SegmentSpan(number, start, offset, tuple(graphs), owner)
                start = offset
            if isinstance(user, Owner):
                owner = user if opens else None
            elif opens:
                graphs[user] = None
            else:
                graphs.pop(user, None)
        if segment.bytes > start:
            yield SegmentSpan(number, start, segment.bytes, (), None)


class PoolMapRow(Struct, frozen=True):
    """Usage of one graph on a pool map: spans ``(begin, end, use)`` in bytes."""

    graph: str
    spans: tuple[tuple[int, int, ByteCategory], ...]


class PoolMap(Struct, frozen=True):
    """A pool with its segments concatenated."""

    id: PoolId
    size: int
    """Sum of the segments, in bytes."""
    starts: tuple[int, ...]
    """Start of each segment, in bytes."""
    rows: tuple[PoolMapRow, ...]
    """Usage of each graph, in capture order."""


def build_pool_map(memory_pass: MemoryPass, pool: PoolId) -> PoolMap:
    """Map the bytes of ``pool`` to the graphs that use them."""
    starts: dict[int, int] = {}
    size = 0
    for number, segment in enumerate(memory_pass.segments):
        if segment.pool == pool:
            starts[number] = size
            size += segment.bytes
    spans: dict[str, list[tuple[int, int, ByteCategory]]] = defaultdict(list)
    for piece in iter_segment_spans(memory_pass):
        if piece.segment not in starts:
            continue
        begin = starts[piece.segment] + piece.begin
        for graph in piece.graphs:
            last = spans[graph][-1] if spans[graph] else None
            if last is not None and (last[1], last[2]) == (begin, piece.use):
                spans[graph][-1] = (last[0], begin + piece.bytes, piece.use)
            else:
                spans[graph].append((begin, begin + piece.bytes, piece.use))
    rows = tuple(
        PoolMapRow(graph.graph, tuple(spans[graph.graph]))
        for graph in memory_pass.graphs
        if graph.pool == pool
    )
    return PoolMap(pool, size, tuple(starts.values()), rows)


def compute_footprints(memory_pass: MemoryPass) -> tuple[GraphFootprint, ...]:
    """Compute the pool usage of each graph, in capture order."""
    exclusive: dict[str, int] = defaultdict(int)
    footprint: dict[str, int] = defaultdict(int)
    sharers: dict[str, set[str]] = defaultdict(set)
    for piece in iter_segment_spans(memory_pass):
        for graph in piece.graphs:
            footprint[graph] += piece.bytes
            sharers[graph].update(piece.graphs)
        if len(piece.graphs) == 1:
            exclusive[piece.graphs[0]] += piece.bytes
    return tuple(
        GraphFootprint(
            graph=graph.graph,
            pool=graph.pool,
            footprint=footprint[graph.graph],
            exclusive=exclusive[graph.graph],
            shared=footprint[graph.graph] - exclusive[graph.graph],
            shared_with=tuple(sorted(sharers[graph.graph] - {graph.graph})),
            live_after_capture=graph.retained_bytes,
            peak=graph.peak_bytes,
            allocations=graph.allocations,
            instantiate_device=graph.instantiate_device_bytes,
        )
        for graph in memory_pass.graphs
    )


def compute_pool_breakdowns(memory_pass: MemoryPass) -> tuple[PoolBreakdown, ...]:
    """Break down every private pool, by id."""
    pools: dict[PoolId, PoolBreakdown] = {}
    for segment in memory_pass.segments:
        pool = pools.setdefault(segment.pool, PoolBreakdown(segment.pool))
        pool.segments += 1
        pool.reserved += segment.bytes
    for piece in iter_segment_spans(memory_pass):
        pool = pools[memory_pass.segments[piece.segment].pool]
        pool.graphs.update(piece.graphs)
        match piece.use:
            case ByteCategory.EXCLUSIVE:
                pool.exclusive += piece.bytes
            case ByteCategory.SHARED:
                pool.shared += piece.bytes
            case ByteCategory.UNUSED:
                pool.unused += piece.bytes
            case ByteCategory.WORKSPACE:
                pool.workspaces += piece.bytes
            case ByteCategory.MODEL if piece.owner is not None:
                pool.owned[piece.owner] += piece.bytes
    return tuple(pools[pool] for pool in sorted(pools))


class MemoryPart(StrEnum):
    """Part of a run's memory; every device byte of the process is in exactly one part."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer state"
    TENSORS = "other tensors"
    WORKSPACES = "library workspaces"
    ACTIVATIONS = "activations"
    EXCLUSIVE = "private to one graph"
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
    """Parts of device memory or of a difference; of all processes unless ``is_process_only``."""

    parts: Mapping[MemoryPart, int]
    is_process_only: bool

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(self.parts.values())

    @property
    def reserved(self) -> int:
        """Memory that the allocator reserves while the run iterates."""
        return self.total - self.parts[MemoryPart.OUTSIDE]

    @property
    def process_bytes(self) -> int:
        """Memory known to belong to this process."""
        return self.total if self.is_process_only else self.reserved


class MemoryReport(Struct, _MemoryParts, frozen=True):
    """Memory of one run, in bytes."""

    run: str
    mode: ExecutionMode
    parts: Mapping[MemoryPart, int]
    """Every MemoryPart; they add up to ``total``."""
    pools: tuple[PoolBreakdown, ...]
    graphs: tuple[GraphFootprint, ...]
    """Pool usage of each graph, in capture order."""
    stages: tuple[MemoryStage, ...]
    """Stages of the memory pass."""
    method: str
    is_process_only: bool
    """True if the driver reports this process; otherwise ``total`` covers all."""

    def get_stage(self, stage: Stage) -> MemoryStage:
        """Return one stage of the pass."""
        return {row.stage: row for row in self.stages}[stage]


class MemoryDifference(Struct, _MemoryParts, frozen=True):
    """Difference of a run from its baseline, in bytes; negative for less memory."""

    run: str
    baseline: str
    parts: Mapping[MemoryPart, int]
    """Every MemoryPart; they add up to ``total``."""
    activation_overhead: float | Missing
    """As a fraction. Missing if the baseline has almost no activations, and in mode compile."""
    is_process_only: bool
    """True if known for both runs."""


def build_memory_report(run: Run) -> MemoryReport | Missing:
    """Build the memory report of ``run``, or explain why there is none."""
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
        + at_peak[Owner.CACHES]
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
    """Compare ``report`` with ``base``; covers all processes unless both know their own."""
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
        reason = f"{base.run} has no activations at its peak"
    elif activations < _SEGMENT:
        reason = (
            f"{base.run} has {format_bytes(activations)} of activations, less than the minimum "
            f"allocation of {format_bytes(_SEGMENT)}, so rounding dominates"
        )
    elif any(side.mode.has_graph_trees for side in (report, base)):
        # These trees release their blocks after each capture, so library workspaces and
        # activations cannot be distinguished.
        reason = "cudagraph trees do not record live memory in their pool"
    else:
        return sum(parts[part] for part in (*ACTIVATION_PARTS, MemoryPart.TENSORS)) / activations
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
    """Compute ``RELATIVE_MEMORY_METRICS``."""
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
