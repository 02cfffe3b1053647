"""Comparison of the ranks of an experiment: waits at collectives and their causes.

A collective's time on one rank is waiting until the last rank arrives, and transfer afterwards.
Starts of different ranks are compared on one clock (:mod:`graphviz_dash.analysis.ranks.clocks`),
intervals within a rank on its own clock. All values come from the traced pass, except step time and
launch CPU time.

A collective of all ranks ends on all of them together. The last rank to arrive therefore has the
shortest kernel, and the excess over it is waiting. No clock alignment is needed.
"""

from __future__ import annotations

from statistics import median
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.arrays import Ints, get_spans
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, compute_step_metrics
from graphviz_dash.analysis.metrics.run_selection import get_family
from graphviz_dash.analysis.ranks.clocks import (
    MatchedCollectives,
    RankClock,
    RankTrace,
    align_clocks,
    convert_to_first_clock,
    match_collectives,
)
from graphviz_dash.analysis.ranks.graphs import (
    CollectiveOrigin,
    GraphDifference,
    compare_rank_graphs,
    find_collective_origins,
)
from graphviz_dash.analysis.sample_statistics import Summary, summarise
from graphviz_dash.analysis.trace.collectives import (
    Collective,
    StepCommunication,
    find_communication,
    get_collective_kinds,
    measure_communication,
)
from graphviz_dash.analysis.trace.lanes import LaneSet, merge_busy
from graphviz_dash.analysis.trace.steps import Step, StepMethod, find_steps
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import ExecutionMode, Experiment, Run

CollectiveSums: TypeAlias = tuple[float | None, float | None, float | None]
_NO_SUMS: Final = (None, None, None)


class RankRow(Struct, frozen=True):
    """One rank in one mode.

    Values are medians over the traced steps, in ns; None without any. The two metrics are from
    the clean pass.
    """

    run: Run
    rank: int
    device: int | None
    """GPU index; None if not recorded."""
    step_time: MetricValue
    launch_cpu_time: MetricValue
    step: float | None = None
    """CPU time from start to end of a step."""
    communication: float | None = None
    """Union of its collectives, in ns."""
    exposed: float | None = None
    """Part of ``communication`` without other GPU work, in ns."""
    compute: float | None = None
    """Union of all other work, in ns."""
    busy: float | None = None
    """Sum of ``compute`` and ``exposed``, in ns."""
    wait: float | None = None
    """Wait for the last rank, summed over collectives."""
    exposed_wait: float | None = None
    """Part of ``wait`` without other GPU work, in ns."""
    transfer: float | None = None
    """Remaining time of the same collectives."""

    @property
    def name(self) -> str:
        """The run's name."""
        return self.run.name


class ArrivalDelay(Struct, frozen=True):
    """Arrival delay of one rank. Times are means per traced step, in ns."""

    rank: int
    count: int
    """Number of collectives of all traced steps that it reached last."""
    significant_count: int
    """Those whose delay exceeds the clocks' spread."""
    total_ns: float
    """Delay after the first rank."""
    caused_ns: float
    """Delay after the second-to-last rank: the time lost due to this rank."""
    work_ns: float
    """Part from longer GPU work since the previous collective."""
    idle_ns: float
    """Part from more GPU idle time (late launches).

    The remainder comes from different ends of the previous collective.
    """


class CollectiveRow(Struct, frozen=True):
    """One collective, over the traced steps."""

    ordinal: int
    """Index in the step, from 0."""
    kind: Collective
    origin: CollectiveOrigin
    """Origin on the first rank."""
    skew: Summary
    """First to last start, in ns."""
    transfer: Summary
    """Last start to last end, in ns."""
    arrival: tuple[Summary, ...]
    """Start relative to the first arrival, by rank, in ns."""
    wait: tuple[Summary, ...]
    """Wait for the last rank, in ns."""
    last_counts: tuple[int, ...]
    """Times that each rank arrived last."""

    @property
    def bandwidth(self) -> float | None:
        """Bytes that a rank sent, divided by median transfer time, in bytes per second."""
        size = self.origin.bytes
        return (
            None if size is None or not self.transfer.median else size / self.transfer.median * 1e9
        )


class ModeRanks(Struct, frozen=True):
    """The ranks of one mode or of one recorded program."""

    name: str
    mode: ExecutionMode
    ranks: tuple[RankRow, ...]
    missing_ranks: tuple[int, ...]
    """Ranks of the world without a run."""
    graphs: tuple[GraphDifference, ...]
    """Differences of later ranks' graphs from the first rank's."""
    clocks: tuple[RankClock, ...]
    """Clock of each rank; empty without ``collectives``."""
    collectives: tuple[CollectiveRow, ...]
    """Common to all ranks, by index in the step."""
    kinds: dict[Collective, int]
    """Counts in the first rank's first step."""
    unmatched: int
    """Collectives without a partner on another rank."""
    steps: int
    """Traced steps common to all ranks."""
    skew: Summary | None
    """First to last start of all collectives, in ns; None without ``collectives``."""
    arrival_delays: tuple[ArrivalDelay, ...]
    """Arrival delay of each rank; empty without ``collectives``."""
    reason: str | None
    """Reason for missing ``collectives``; None otherwise."""

    @property
    def uncertainty(self) -> float | None:
        """Smallest significant skew in ns, given the clocks' spread; None without clocks."""
        return max((clock.spread for clock in self.clocks), default=None)

    @property
    def slowest(self) -> RankRow | None:
        """The rank with the longest clean step, which sets the overall step time."""
        timed_ranks = [row for row in self.ranks if row.step_time.value is not None]
        return max(timed_ranks, key=lambda row: row.step_time.value or 0.0, default=None)


def compare_ranks(experiment: Experiment) -> tuple[ModeRanks, ...]:
    """Compare the ranks of each mode with several ranks.

    Near-linear in the rows of the traces.
    """
    return tuple(
        _build_mode_ranks(name, runs)
        for name, runs in group_rank_families(experiment).items()
        if any(map(is_rank_of_several, runs))
    )


def is_rank_of_several(run: Run) -> bool:
    """Return whether ``run`` is one rank of several, according to its launcher."""
    return run.manifest.job_rank is not None


def group_rank_families(experiment: Experiment) -> dict[str, list[Run]]:
    """Return the runs of each family (mode, program or job) by rank.

    Jobs of equal description are separated by run name if a rank occurs twice.
    """
    by_name: dict[str, list[Run]] = {}
    for run in experiment.runs:
        if run.manifest.rank is not None:
            by_name.setdefault(get_family(run), []).append(run)
    for name, runs in list(by_name.items()):
        if len({run.manifest.rank for run in runs}) < len(runs):
            del by_name[name]
            for run in runs:
                job = run.name.removesuffix(f"-rank{run.manifest.rank}")
                by_name.setdefault(f"{name}: {job}", []).append(run)
    return {
        name: sorted(runs, key=lambda run: run.manifest.rank or 0) for name, runs in by_name.items()
    }


def _build_mode_ranks(name: str, runs: list[Run]) -> ModeRanks:
    traces = [build_rank_trace(run) for run in runs]
    present = [trace for trace in traces if isinstance(trace, RankTrace)]
    reason = _explain_missing_skew(runs, traces)
    aligned_collectives = _AlignedCollectives(present) if reason is None else None
    if aligned_collectives is not None and not aligned_collectives.clocks:
        reason, aligned_collectives = (
            _explain_missing_clocks(present, aligned_collectives.instances),
            None,
        )
    rows = tuple(
        _build_row(
            run, trace, aligned_collectives.compute_sums(index) if aligned_collectives else _NO_SUMS
        )
        for index, (run, trace) in enumerate(zip(runs, traces, strict=True))
    )
    return ModeRanks(
        name=name,
        mode=runs[0].mode,
        ranks=rows,
        missing_ranks=_find_missing_ranks(runs),
        graphs=compare_rank_graphs(runs),
        clocks=aligned_collectives.clocks if aligned_collectives else (),
        collectives=aligned_collectives.build_rows(
            find_collective_origins(runs[0], aligned_collectives.get_first_step_rows())
        )
        if aligned_collectives
        else (),
        kinds=_count_kinds(present),
        unmatched=aligned_collectives.instances.unmatched if aligned_collectives else 0,
        steps=aligned_collectives.steps if aligned_collectives else 0,
        skew=summarise(aligned_collectives.skew) if aligned_collectives else None,
        arrival_delays=aligned_collectives.compute_arrival_delays() if aligned_collectives else (),
        reason=reason,
    )


def build_rank_trace(run: Run) -> RankTrace | Missing:
    """Return the run's traced steps with their communication."""
    trace = run.replay_trace
    if trace is None:
        return explain_missing(run, Fact.TRACED_PASS)
    traced_steps = find_steps(trace)
    if not traced_steps or traced_steps[0].method is StepMethod.WHOLE:
        return Missing(Fact.TRACED_STEPS, "the trace marks no steps")
    return RankTrace(
        run.manifest.rank or 0, trace, traced_steps, measure_communication(trace, traced_steps)
    )


def _explain_missing_skew(runs: list[Run], traces: list[RankTrace | Missing]) -> str | None:
    for run, trace in zip(runs, traces, strict=True):
        if isinstance(trace, Missing):
            return f"{run.name}: {trace.reason}"
    if len(runs) < 2:
        group = runs[0].manifest.group
        if group is not None and group.world_size == 1:
            return "there is only one rank, so it never waits for another"
        return "only one of several ranks is available"
    return None


def _explain_missing_clocks(ranks: list[RankTrace], instances: MatchedCollectives) -> str:
    if len(instances):
        return "no collective ends on all ranks together, so their clocks cannot be aligned"
    if any(len(rank_collectives.rows) for rank in ranks for rank_collectives in rank.communication):
        return "the ranks' traced steps have no collective in common"
    return "no communication kernel ran in the traced steps"


def _find_missing_ranks(runs: list[Run]) -> tuple[int, ...]:
    sizes = [run.manifest.group.world_size for run in runs if run.manifest.group is not None]
    present = {run.manifest.rank for run in runs}
    # A damaged manifest may contain any size, so the list is limited.
    return tuple(rank for rank in range(min(max(sizes, default=0), 4096)) if rank not in present)


def _count_kinds(ranks: list[RankTrace]) -> dict[Collective, int]:
    counts: dict[Collective, int] = {}
    if ranks and ranks[0].communication:
        for kind in get_collective_kinds(ranks[0].trace, ranks[0].communication[0].rows):
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def _build_row(run: Run, trace: RankTrace | Missing, sums: CollectiveSums) -> RankRow:
    figures = {figure.metric.id: figure for figure in compute_step_metrics(run)}
    traced_steps: tuple[Step, ...] = ()
    parts: tuple[StepCommunication, ...] = ()
    if isinstance(trace, RankTrace):
        traced_steps, parts = trace.steps, trace.communication
    return RankRow(
        run=run,
        rank=run.manifest.rank or 0,
        device=run.manifest.group.device if run.manifest.group is not None else None,
        step_time=figures["step_time"],
        launch_cpu_time=figures["launch_cpu_time"],
        step=_compute_median([step.duration_ns for step in traced_steps]),
        communication=_compute_median([part.total_ns for part in parts]),
        exposed=_compute_median([part.exposed_ns for part in parts]),
        compute=_compute_median([part.compute_ns for part in parts]),
        busy=_compute_median([part.compute_ns + part.exposed_ns for part in parts]),
        wait=sums[0],
        exposed_wait=sums[1],
        transfer=sums[2],
    )


def _compute_median(values: list[int]) -> float | None:
    return float(median(values)) if values else None


class _AlignedCollectives:
    """Collectives common to all ranks, on one clock."""

    def __init__(self, ranks: list[RankTrace]) -> None:
        self._ranks = ranks
        self.instances: MatchedCollectives = match_collectives(ranks)
        self.clocks = align_clocks(ranks, self.instances)
        if not self.clocks:
            return
        self._start = convert_to_first_clock(ranks, self.clocks, self.instances.start)
        self._end = convert_to_first_clock(ranks, self.clocks, self.instances.end)
        first, last = self._start.min(axis=1), self._start.max(axis=1)
        self.skew: Ints = last - first
        self._arrival = self._start - first[:, None]
        # A collective that seems to end before the last start waited all the time.
        self.waits: Ints = np.minimum(self._end, last[:, None]) - self._start
        self.transfers: Ints = (self._end - self._start) - self.waits
        self._compute = [_build_compute_lane(rank) for rank in ranks]
        self.exposed_waits: Ints = self.waits - self._measure_hidden_waits(self.waits)
        self._last = self._start.argmax(axis=1)
        self.steps = len(np.unique(self.instances.step))

    def compute_sums(self, rank: int) -> CollectiveSums:
        """Return a rank's median wait, exposed wait and transfer per step, by rank index."""
        _, step = np.unique(self.instances.step, return_inverse=True)
        wait, exposed_ns, transfer = (
            float(np.median(np.bincount(step.ravel(), weights=values[:, rank])))
            for values in (self.waits, self.exposed_waits, self.transfers)
        )
        return wait, exposed_ns, transfer

    def _measure_hidden_waits(self, waits: Ints) -> Ints:
        hidden_ns = np.zeros_like(waits)
        for index, lane in enumerate(self._compute):
            begin = self.instances.start[:, index]
            hidden_ns[:, index] = lane.measure_overlap(begin, begin + waits[:, index])
        return hidden_ns

    def get_first_step_rows(self) -> Ints:
        first = self.instances.step == self.instances.step[0]
        return np.asarray(self.instances.row[first, 0], dtype=np.int64)

    def build_rows(self, step_origins: list[CollectiveOrigin]) -> tuple[CollectiveRow, ...]:
        rows = []
        unknown_origin = CollectiveOrigin("none", None, None, None, None, None)
        for ordinal in range(int(self.instances.ordinal.max()) + 1):
            instances = np.flatnonzero(self.instances.ordinal == ordinal)
            summaries = [
                summarise(values)
                for values in (self.skew[instances], self._measure_transfer(instances))
            ]
            skew, transfer = (_require_summary(summary) for summary in summaries)
            rows.append(
                CollectiveRow(
                    ordinal=ordinal,
                    kind=self.instances.kinds[int(instances[0])],
                    origin=step_origins[ordinal] if ordinal < len(step_origins) else unknown_origin,
                    skew=skew,
                    transfer=transfer,
                    arrival=self._summarise_by_rank(self._arrival[instances]),
                    wait=self._summarise_by_rank(self.waits[instances]),
                    last_counts=tuple(
                        np.bincount(self._last[instances], minlength=len(self._ranks)).tolist()
                    ),
                )
            )
        return tuple(rows)

    def _measure_transfer(self, instances: Ints) -> Ints:
        transfer_ns = self._end[instances].max(axis=1) - self._start[instances].max(axis=1)
        return np.asarray(np.maximum(transfer_ns, 0), dtype=np.int64)

    def _summarise_by_rank(self, values: Ints) -> tuple[Summary, ...]:
        return tuple(_require_summary(summarise(column)) for column in values.T)

    def compute_arrival_delays(self) -> tuple[ArrivalDelay, ...]:
        """Return the arrival delay of each rank and the part that longer work explains."""
        work, gap = self._measure_preceding_time()
        spread = max(clock.spread for clock in self.clocks)
        delay_ns = np.diff(np.sort(self._start, axis=1)[:, -2:], axis=1).ravel()
        early_rank = self._start.argmin(axis=1)
        every_instance = np.arange(len(early_rank))
        more_work = work[every_instance, self._last] - work[every_instance, early_rank]
        more_idle = gap[every_instance, self._last] - gap[every_instance, early_rank]
        return tuple(
            ArrivalDelay(
                rank=rank.rank,
                count=int(last_here.sum()),
                significant_count=int((last_here & (self.skew > spread)).sum()),
                total_ns=float(self.skew[last_here].sum()) / self.steps,
                caused_ns=float(delay_ns[last_here].sum()) / self.steps,
                work_ns=float(more_work[last_here].sum()) / self.steps,
                idle_ns=float(more_idle[last_here].sum()) / self.steps,
            )
            for index, rank in enumerate(self._ranks)
            for last_here in [self._last == index]
        )

    def _measure_preceding_time(self) -> tuple[Ints, Ints]:
        """Return GPU work and idle time since the previous collective, per instance and rank.

        In ns of the rank's own clock; 0 for the first collective and for collectives that overlap
        on a rank.
        """
        start, end = self.instances.start, self.instances.end
        work, idle = np.zeros_like(start), np.zeros_like(start)
        clear = np.append(False, (start[1:] >= end[:-1]).all(axis=1))
        for index, busy in enumerate(self._compute):
            # In the first rank's order, instances need not ascend on another rank.
            before = (
                busy.compute_busy_before(0, end[:-1, index])
                if len(busy)
                else np.zeros(len(start) - 1)
            )
            busy_until = busy.compute_busy_before(0, start[1:, index]) if len(busy) else before
            work[1:, index] = busy_until - before
            idle[1:, index] = start[1:, index] - end[:-1, index] - work[1:, index]
        work[~clear], idle[~clear] = 0, 0
        return work, idle


def _build_compute_lane(rank: RankTrace) -> LaneSet:
    gpu = rank.trace.gpu
    others = ~find_communication(rank.trace)
    start, end = get_spans(gpu, others)
    return merge_busy(np.zeros(len(start), dtype=np.int64), start, end)


def _require_summary(summary: Summary | None) -> Summary:
    if summary is None:
        raise ValueError("a collective without instances")
    return summary


NO_MEETING: Final = -1


class RankWaits(Struct, frozen=True):
    """Waits per row of a trace's GPU work, shape (rows,), in ns.

    ``meeting`` numbers the collectives of all ranks within the step, equally on all ranks. Other
    rows have 0 and NO_MEETING.
    """

    wait_ns: Ints
    meeting: Ints

    @classmethod
    def create_empty(cls, rows: int) -> RankWaits:
        """Return the waits of a single-process trace."""
        return cls(np.zeros(rows, dtype=np.int64), np.full(rows, NO_MEETING, dtype=np.int64))


def compute_rank_waits(experiment: Experiment) -> dict[str, RankWaits]:
    """Return the waits by run name, for modes with traces of all ranks (at least two)."""
    by_run: dict[str, RankWaits] = {}
    for runs in group_rank_families(experiment).values():
        traces = [(run, build_rank_trace(run)) for run in runs]
        ranks = [trace for _, trace in traces if isinstance(trace, RankTrace)]
        if len(ranks) < len(runs) or len(ranks) < 2:
            continue
        instances = match_collectives(ranks)
        duration_ns = instances.end - instances.start
        for index, (run, rank) in enumerate(zip(runs, ranks, strict=True)):
            waits = RankWaits.create_empty(rank.trace.gpu.height)
            rows = instances.row[:, index]
            waits.wait_ns[rows] = duration_ns[:, index] - duration_ns.min(axis=1)
            waits.meeting[rows] = instances.ordinal
            by_run[run.name] = waits
    return by_run
