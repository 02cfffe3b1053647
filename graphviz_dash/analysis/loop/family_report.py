"""Report on the graph families of a recorded program: graph costs and lost step time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.copied_sizes import infer_copied_sizes
from graphviz_dash.analysis.loop.padding import PaddingCost, compute_padding_cost
from graphviz_dash.analysis.loop.size_times import (
    ReplaySamples,
    SizeTimes,
    extend_times,
    fit_eager_times,
    fit_median_times,
    interpolate_times,
)
from graphviz_dash.analysis.loop.step_modes import StepMode, summarize_modes
from graphviz_dash.analysis.memory.captured_pools import FamilyPool, build_family_pool
from graphviz_dash.analysis.memory.executables import (
    NodeBytes,
    find_capture_chunks,
    measure_node_bytes,
)
from graphviz_dash.analysis.metrics.loop_columns import (
    CAPTURE,
    FALLBACK,
    NONE,
    SIZE_SOURCES,
    LoopColumns,
    SizeSource,
    build_loop_columns,
)
from graphviz_dash.analysis.sample_statistics import Summary, compute_percentiles, summarise
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.loop import FamilyMember, GraphCost, GraphFamily, ProgramLoop
from graphviz_dash.model.recording import (
    BoundaryKind,
    RecordedGraph,
    Recording,
    find_released_graphs,
)
from graphviz_dash.model.run import Run

_MIN_SAMPLES: Final = 3
"""For a reliable median of GPU times."""
_MIN_STEPS: Final = 32
"""For a reliable median of step intervals, which vary with host work."""


class MemberReport(Struct, frozen=True):
    """A member of a graph family: the graphs for one key."""

    index: int
    member: FamilyMember
    size: int | None
    """Padded number of the key; None if unknown."""
    other_axes: tuple[int, ...]
    """Other numbers of the key."""
    steps: int
    """Steps served, recorded or only counted."""
    gpu: Summary | None
    """GPU time of replaying all its graphs, in ns; None without samples."""
    gpu_ns: Floats
    """Samples, shape (samples,)."""
    launch: Summary | None
    """CPU time of the replay calls, in ns; None if not recorded."""
    period: Summary | None
    """Time of its steps (``LoopColumns.period_ns``), in ns; None without steps."""
    nodes: int | None
    """None if a graph could not be read."""
    capture_ns: int
    """Capture time including instantiation, in ns."""
    first_launch_ns: int | None
    """Time of the first replay calls, in ns; None if a graph was never replayed."""
    exclusive_bytes: int | None
    """Bytes of the pool that only this member uses; None if not recorded."""
    pool_growth_bytes: int | None
    """Bytes that the captures added to the pool; None if not recorded."""
    executable_bytes: int | None
    """Estimated memory of executables outside the allocator; None if nodes are unknown."""
    is_eviction: bool = False
    """True if the program released its graphs before its end but kept others."""

    @property
    def startup_ns(self) -> int:
        """Time until the graphs replay at full speed, in ns."""
        return self.capture_ns + (self.first_launch_ns or 0)

    @property
    def own_bytes(self) -> int | None:
        """Exclusive pool memory and executables, in bytes; None if both are unknown."""
        if self.exclusive_bytes is None and self.executable_bytes is None:
            return None
        return (self.exclusive_bytes or 0) + (self.executable_bytes or 0)


class SizeLoss(Struct, frozen=True):
    """Time lost by the requests of one real size."""

    size: int
    requests: int
    """Steps that requested it."""
    fallbacks: int
    """Those that ran without a graph."""
    padding_ns: float
    """GPU time of the other steps beyond a graph of exactly that size, in ns."""
    fallback_ns: float | None
    """Time of steps without a graph beyond a graph of that size, in ns; None if unknown."""


def sum_fallback_ns(losses: Iterable[SizeLoss]) -> float | None:
    """Sum in ns, or None if any value is unknown."""
    values = [loss.fallback_ns for loss in losses]
    return None if None in values else sum(ns for ns in values if ns is not None)


class FamilyReport(Struct, frozen=True):
    """One family and the steps that it served."""

    index: int
    family: GraphFamily
    members: tuple[MemberReport, ...]
    """By size; members of unknown size last, in capture order."""
    replays: int
    """Steps that replayed its graphs."""
    fallbacks: int
    """Steps that ran eagerly because no graph fit."""
    captures: int
    """Steps that captured a graph."""
    step_ns: float | None
    """Median time from one step to the next, minus the replay, in ns; None without samples."""
    samples: tuple[ReplaySamples, ...]
    """Times of members with a known size; empty if no replay was timed."""
    eager_times: SizeTimes
    """GPU times of its steps without a graph. Unknown unless the GPU is slower than the CPU."""
    real_sizes: tuple[tuple[SizeSource, int], ...]
    """Replays and fallbacks with a known real size, by source, most reliable first."""
    losses: tuple[SizeLoss, ...] | Missing
    """By real size, ascending, or why padding is unknown."""
    padding: PaddingCost | Missing
    """Over all steps of known size; missing with ``losses``."""
    node_bytes: NodeBytes
    """Estimate for its graphs. Small graphs use more per node."""
    pool: FamilyPool | Missing
    """Allocations of its captures, or why they are unknown."""

    @property
    def fallback_ns(self) -> float | None:
        """Fallback cost in ns; None if unknown."""
        if isinstance(self.losses, Missing):
            return None
        return sum_fallback_ns(self.losses)

    @property
    def key_count(self) -> int:
        """Number of distinct keys; each unknown key counts."""
        keys = [member.member.key for member in self.members if member.member.key]
        return len(set(keys)) + len(self.members) - len(keys)

    @property
    def has_sizes(self) -> bool:
        """True if its graphs differ by a size."""
        return any(member.size is not None for member in self.members)

    @property
    def is_segmented(self) -> bool:
        """True if a step replays several graphs."""
        return any(len(member.member.graphs) > 1 for member in self.members)

    @property
    def kept_members(self) -> tuple[MemberReport, ...]:
        """Members whose graphs the program kept; all if it released them all."""
        retained_members = tuple(member for member in self.members if not member.is_eviction)
        return retained_members or self.members

    @property
    def graphs(self) -> tuple[str, ...]:
        """Distinct ids of its graphs."""
        return tuple(dict.fromkeys(g for member in self.members for g in member.member.graphs))


class RecordedStepLength(Struct, frozen=True):
    """Steps of the loop between two ends of a step of the recording.

    Graphs of one place that follow each other in a fixed order are one step for the recorder, and
    alternatives, thus separate steps, for the loop.
    """

    graph: str
    """Graph whose replay ends a step of the recording."""
    steps: float
    """Mean number of steps of the loop, above 1."""


class LoopReport(Struct, frozen=True):
    """Loop of one recorded program."""

    run: str
    families: tuple[FamilyReport, ...]
    """Families, most steps first."""
    columns: LoopColumns
    steps_seen: int
    """May exceed the number of recorded rows."""
    only_counted_replays: int
    """Replays of the graphs of families most of whose steps were not recorded, 0 without any."""
    engine: str | None
    """Engine whose state was recorded, if any."""
    engine_capture_bytes: int | None
    """Memory of the captures as measured by the engine. None if unknown."""
    modes: tuple[StepMode, ...]
    """Steps by phase and mode."""
    recorded_step: RecordedStepLength | None
    """Length of a step of the recording in steps of this loop. None if they are the same."""

    def scale_to_recorded_step(self, ns: float) -> float:
        """Convert a time per step of this loop to one per step of the recording."""
        return ns if self.recorded_step is None else ns * self.recorded_step.steps


def has_many_graphs(loop: ProgramLoop | None) -> bool:
    """Check whether a program has a family with several graphs: several keys, or segments."""
    return loop is not None and any(
        len(family.members) > 1 or any(len(member.graphs) > 1 for member in family.members)
        for family in loop.families
    )


def has_only_recorded_graphs(run: Run) -> bool:
    """Check whether an older bundle format recorded several graphs but no loop."""
    return run.loop is None and run.recording is not None and len(run.recording.graphs) > 1


def build_loop_report(run: Run) -> LoopReport | Missing:
    """Build the report on the families of ``run``, or explain why there is none."""
    loop, recording = run.loop, run.recording
    if loop is None or recording is None:
        reason = "no program recorded" if recording is None else "recorded by an older version"
        return Missing(Fact.FAMILIES, reason)
    if not loop.families:
        return Missing(Fact.FAMILIES, "the program captured no graph")
    columns = build_loop_columns(
        loop, infer_copied_sizes(loop, run.replay_trace) if run.replay_trace else {}
    )
    costs = {cost.graph: cost for cost in loop.graphs}
    recorded_graphs = {graph.graph: graph for graph in recording.graphs}
    uses = Counter(g for f in loop.families for member in f.members for g in set(member.graphs))
    graphs = _GraphFacts(
        costs=costs,
        recorded=recorded_graphs,
        uses=uses,
        evictions=find_released_graphs(recording),
        capture_chunks=find_capture_chunks(run.ledger),
        has_counted_steps=loop.step_count > len(columns.kind),
    )
    families = [
        _build_family(index, family, columns, graphs, build_family_pool(run, index))
        for index, family in enumerate(loop.families)
    ]
    families.sort(key=lambda family: -(family.replays + family.fallbacks))
    return LoopReport(
        run=run.name,
        families=tuple(families),
        columns=columns,
        steps_seen=loop.step_count,
        only_counted_replays=_count_replays(families, recorded_graphs),
        engine=loop.engine,
        engine_capture_bytes=loop.engine_capture_bytes,
        modes=summarize_modes(
            columns, loop.families, {family.index: family.replays for family in families}
        ),
        recorded_step=_measure_recorded_step(recording, loop, columns),
    )


def _measure_recorded_step(
    recording: Recording, loop: ProgramLoop, columns: LoopColumns
) -> RecordedStepLength | None:
    """Measure a step of the recording that ends with the replay of one graph."""
    if recording.boundary_kind is not BoundaryKind.REPLAYS:
        return None
    members = [
        (number, index, graph)
        for number, family in enumerate(loop.families)
        for index, member in enumerate(family.members)
        for graph in member.graphs
        if recording.boundary == f"replay of {graph}"
    ]
    if len(members) != 1:
        return None
    [(family, member, graph)] = members
    replays = np.flatnonzero(columns.is_replay)
    ends = np.flatnonzero((columns.family == family) & (columns.member == member))
    ends = np.searchsorted(replays, ends[columns.is_replay[ends]])
    if len(ends) < 2 or ends[-1] - ends[0] == len(ends) - 1:
        return None
    return RecordedStepLength(graph, float(ends[-1] - ends[0]) / (len(ends) - 1))


def _count_replays(
    families: Sequence[FamilyReport], recorded_graphs: Mapping[str, RecordedGraph]
) -> int:
    """Count the replays of families most of whose steps were not recorded.

    Steps that end with an optimizer are recorded only at first. A graph of an inner loop has more
    replays than its steps, another graph of the step does not.
    """
    graphs: set[str] = set()
    for family in families:
        remaining_replays = {
            graph: recorded_graphs[graph].replays
            for graph in family.graphs
            if graph in recorded_graphs
        }
        for member in family.members:
            for graph in member.member.graphs:
                remaining_replays[graph] = remaining_replays.get(graph, 0) - member.steps
        if min(remaining_replays.values(), default=0) > max(1, family.replays):
            graphs.update(family.graphs)
    return sum(recorded_graphs[graph].replays for graph in graphs if graph in recorded_graphs)


class _GraphFacts(Struct, frozen=True):
    costs: Mapping[str, GraphCost]
    recorded: Mapping[str, RecordedGraph]
    uses: Mapping[str, int]
    evictions: frozenset[str]
    capture_chunks: Mapping[str, int]
    """Chunks for executables that the driver allocated during captures."""
    has_counted_steps: bool
    """True if some steps were counted but not recorded."""


def _estimate_node_bytes(family: GraphFamily, graphs: _GraphFacts) -> NodeBytes:
    names = {graph for member in family.members for graph in member.graphs}
    return measure_node_bytes(
        (driver_bytes + graphs.capture_chunks.get(graph, 0), nodes)
        for graph in names & graphs.recorded.keys()
        if (driver_bytes := graphs.costs[graph].driver_bytes) is not None
        and (nodes := graphs.recorded[graph].nodes)
    )


def _build_family(
    index: int,
    family: GraphFamily,
    columns: LoopColumns,
    graphs: _GraphFacts,
    pool: FamilyPool | Missing,
) -> FamilyReport:
    node_bytes = _estimate_node_bytes(family, graphs)
    rows = np.flatnonzero(columns.family == index)
    kind = columns.kind[rows]
    served_rows = rows[columns.is_replay[rows]]
    # A single pass over all members: steps grouped by member.
    order = served_rows[np.argsort(columns.member[served_rows], kind="stable")]
    bounds = np.searchsorted(columns.member[order], np.arange(len(family.members) + 1))
    members = [
        _build_member(
            number,
            family,
            member,
            columns,
            order[bounds[number] : bounds[number + 1]],
            graphs,
            node_bytes,
        )
        for number, member in enumerate(family.members)
    ]
    members.sort(
        key=lambda member_report: (
            member_report.size is None,
            member_report.size or 0,
            member_report.other_axes,
            member_report.index,
        )
    )
    step_ns = _compute_step_ns(columns, served_rows, members)
    samples = _collect_samples(members, columns, served_rows, step_ns)
    eager_times = _fit_eager_times(columns, rows, step_ns or 0.0)
    losses = _compute_losses(samples, eager_times, columns, rows, step_ns or 0.0)
    return FamilyReport(
        index=index,
        family=family,
        members=tuple(members),
        replays=sum(member.steps for member in members),
        fallbacks=int((kind == FALLBACK).sum()),
        captures=int((kind == CAPTURE).sum()),
        step_ns=step_ns,
        samples=samples,
        eager_times=eager_times,
        real_sizes=_count_real_sizes(columns, rows),
        losses=losses,
        padding=_compute_padding(samples, columns, rows, losses),
        node_bytes=node_bytes,
        pool=pool,
    )


def _build_member(
    index: int,
    family: GraphFamily,
    member: FamilyMember,
    columns: LoopColumns,
    steps: Ints,
    graphs: _GraphFacts,
    node_bytes: NodeBytes,
) -> MemberReport:
    size, rest = _split_key(family, member)
    ids = tuple(dict.fromkeys(member.graphs))
    costs = [graphs.costs[graph] for graph in ids]
    recorded_graphs = [graphs.recorded[graph] for graph in ids if graph in graphs.recorded]
    nodes = _sum_known([graph.nodes for graph in recorded_graphs])
    is_exclusive = len(member.graphs) == 1 and graphs.uses[ids[0]] == 1
    gpu = np.array(costs[0].gpu_ns, dtype=np.float64) if is_exclusive else np.zeros(0)
    if not len(gpu):
        gpu = _select_recorded(columns.gpu_ns[steps])
    return MemberReport(
        index=index,
        member=member,
        size=size,
        other_axes=rest,
        steps=_count_steps(member, len(steps), graphs),
        gpu=summarise(gpu),
        gpu_ns=gpu,
        launch=summarise(_select_recorded(columns.launch_ns[steps])),
        period=summarise(_select_recorded(columns.period_ns[steps])),
        nodes=nodes,
        capture_ns=sum(graph.capture_ns for graph in recorded_graphs),
        first_launch_ns=_sum_known([cost.first_launch_ns for cost in costs]),
        exclusive_bytes=_sum_known([cost.exclusive_bytes for cost in costs]),
        pool_growth_bytes=_sum_known([cost.pool_growth_bytes for cost in costs]),
        executable_bytes=None if nodes is None else round(nodes * node_bytes.bytes),
        is_eviction=graphs.evictions.issuperset(ids),
    )


def _count_steps(member: FamilyMember, rows: int, graphs: _GraphFacts) -> int:
    """Count the steps of a member: its replays, if some steps were not recorded."""
    first = member.graphs[0]
    if not graphs.has_counted_steps or graphs.uses[first] != 1 or first not in graphs.recorded:
        return rows
    return max(rows, graphs.recorded[first].replays // member.graphs.count(first))


def _split_key(family: GraphFamily, member: FamilyMember) -> tuple[int | None, tuple[int, ...]]:
    axis, key = family.size_axis, member.key
    if key is None or axis is None:
        return None, ()
    return key[axis], (*key[:axis], *key[axis + 1 :])


def _sum_known(values: Sequence[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    return sum(present) if len(present) == len(values) else None


def _select_recorded(values: Ints) -> Floats:
    present: Floats = values[values != NONE].astype(np.float64)
    return present


def _compute_step_ns(
    columns: LoopColumns, served: Ints, members: Sequence[MemberReport]
) -> float | None:
    """Compute ``FamilyReport.step_ns``.

    Includes unsampled steps, because the events of sampled steps cost time.
    """
    medians = np.full(1 + max((member.index for member in members), default=0), np.nan)
    for member in members:
        if member.gpu is not None:
            medians[member.index] = member.gpu.median
    settled_rows = columns.select_settled(served)
    other_ns = columns.period_ns[settled_rows] - medians[columns.member[settled_rows]]
    other_ns = other_ns[np.isfinite(other_ns)]
    return max(compute_percentiles(other_ns, (50,))[0], 0.0) if len(other_ns) else None


def _collect_samples(
    members: Sequence[MemberReport], columns: LoopColumns, served: Ints, step_ns: float | None
) -> tuple[ReplaySamples, ...]:
    """Collect the times of members with a known size.

    Members with fewer than three GPU times use the step interval minus the time beyond the replay.
    Members with fewer than three of either are a last resort, because one slow sample distorts the
    curve.
    """
    timed_rows = columns.select_settled(served)
    timed_rows = timed_rows[np.argsort(columns.member[timed_rows], kind="stable")]
    other_ns = np.maximum(columns.period_ns[timed_rows] - (step_ns or 0.0), 0.0)
    member_of = columns.member[timed_rows]
    well_sampled: list[ReplaySamples] = []
    undersampled_members: list[ReplaySamples] = []
    for member in members:
        if not member.size:
            continue
        times = member.gpu_ns
        if len(times) < _MIN_SAMPLES and step_ns is not None:
            first, last = np.searchsorted(member_of, (member.index, member.index + 1))
            by_period = other_ns[first:last]
            times = by_period if len(by_period) >= _MIN_STEPS else times
        if len(times):
            group = well_sampled if len(times) >= _MIN_SAMPLES else undersampled_members
            group.append(ReplaySamples(member.size, member.other_axes, times, member.steps))
    return tuple(well_sampled or undersampled_members)


def _fit_eager_times(columns: LoopColumns, rows: Ints, step_ns: float) -> SizeTimes:
    eager_rows = columns.select_settled(rows[columns.kind[rows] == FALLBACK])
    eager_rows = eager_rows[columns.is_gpu_bound[eager_rows] & (columns.real[eager_rows] > 0)]
    times_ns = np.maximum(columns.period_ns[eager_rows] - step_ns, 0.0)
    return fit_eager_times(columns.real[eager_rows], times_ns)


def _count_real_sizes(columns: LoopColumns, rows: Ints) -> tuple[tuple[SizeSource, int], ...]:
    measured_rows = rows[(columns.real[rows] != NONE) & (columns.kind[rows] != CAPTURE)]
    counts = np.bincount(columns.size_source[measured_rows], minlength=len(SIZE_SOURCES)).tolist()
    return tuple(pair for pair in zip(SIZE_SOURCES, counts, strict=True) if pair[1])


def _compute_padding(
    samples: Sequence[ReplaySamples],
    columns: LoopColumns,
    rows: Ints,
    losses: tuple[SizeLoss, ...] | Missing,
) -> PaddingCost | Missing:
    if isinstance(losses, Missing):
        return losses
    served_rows = rows[(columns.real[rows] > 0) & (columns.padded[rows] != NONE)]
    served_rows = served_rows[~np.isin(columns.kind[served_rows], (CAPTURE, FALLBACK))]
    steps = sum(loss.requests for loss in losses)
    return compute_padding_cost(
        samples, columns.real[served_rows], columns.padded[served_rows], steps
    )


def _compute_losses(
    samples: Sequence[ReplaySamples],
    eager_times: SizeTimes,
    columns: LoopColumns,
    rows: Ints,
    step_ns: float,
) -> tuple[SizeLoss, ...] | Missing:
    """Compute the padding and fallback cost of each real size.

    Uses medians of sampled replays and GPU times of eager steps, interpolated between sizes.
    """
    rows = rows[(columns.real[rows] > 0) & (columns.kind[rows] != CAPTURE)]
    if not len(rows):
        return Missing(Fact.LADDER, "no step of a known real size")
    if not samples:
        return Missing(Fact.LADDER, "no replay of a known size was timed on the GPU")
    sampled_sizes, curve = extend_times(*fit_median_times(samples), eager_times)
    real, padded_sizes = columns.real[rows], columns.padded[rows]
    is_padded = padded_sizes > real
    if is_padded.any() and bool((real[is_padded] < sampled_sizes[0]).all()):
        # The curve is flat below its first size, so zero padding cost would be an optimistic guess.
        return Missing(
            Fact.LADDER,
            f"no size below {sampled_sizes[0]:,} was timed, but padded steps have such sizes",
        )
    exact_ns = interpolate_times(real, sampled_sizes, curve)
    padded_ns = interpolate_times(np.maximum(padded_sizes, 0), sampled_sizes, curve)
    is_fallback = columns.kind[rows] == FALLBACK
    period = columns.period_ns[rows]
    is_timed = np.isin(rows, columns.select_settled(rows[is_fallback]))
    over_ns = period - step_ns - exact_ns
    # Untimed fallbacks, such as the last step of a thread or the first of a size (library
    # initialization), count with the mean of the others.
    typical_ns = float(over_ns[is_timed].mean()) if is_timed.any() else np.nan
    fallback_ns = np.where(is_timed, over_ns, np.where(is_fallback, typical_ns, 0.0))
    padding_ns = np.where(is_fallback | (padded_sizes == NONE), 0.0, padded_ns - exact_ns)
    sizes, positions = np.unique(real, return_inverse=True)
    columns_of = [
        np.bincount(positions, weights=weights, minlength=len(sizes))
        for weights in (np.ones(len(real)), is_fallback, padding_ns, fallback_ns)
    ]
    return tuple(
        SizeLoss(
            int(size),
            int(count),
            int(fallbacks),
            float(padding),
            float(fallback) if np.isfinite(fallback) else None,
        )
        for size, count, fallbacks, padding, fallback in zip(sizes, *columns_of, strict=True)
    )
