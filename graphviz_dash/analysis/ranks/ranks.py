"""The ranks of an experiment side by side: who waits for whom at the collectives, and why.

A collective's time on one rank is, up to the arrival of the last rank, waiting; the rest is
transfer. Starts of different ranks are compared on one clock
(:mod:`graphviz_dash.analysis.ranks.clocks`), spans within a rank on its own. All of it is of the
traced pass, except step time and launch CPU time.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.arrays import Ints, column
from graphviz_dash.analysis.metrics.run_metrics import Figure, step_figures
from graphviz_dash.analysis.metrics.run_selection import family
from graphviz_dash.analysis.ranks.clocks import (
    MatchedCollectives,
    RankClock,
    RankTrace,
    align_clocks,
    match_instances,
    on_one_clock,
)
from graphviz_dash.analysis.ranks.graphs import (
    CollectiveOrigin,
    GraphDifference,
    differences,
    origins,
)
from graphviz_dash.analysis.sample_statistics import Summary, summarise
from graphviz_dash.analysis.trace.collectives import (
    Collective,
    StepCommunication,
    collective_kinds,
    communication,
    is_communication,
)
from graphviz_dash.analysis.trace.lanes import LaneSet, merge_busy
from graphviz_dash.analysis.trace.steps import Step, StepMethod, steps
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import ExecutionMode

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment, Run


Sums: TypeAlias = tuple[float | None, float | None, float | None]
_NO_SUMS: Final = (None, None, None)


class RankRow(Struct, frozen=True):
    """One rank in one mode. Fields without a pass of their own are medians over the traced steps,
    None without them."""

    run: Run
    """Its run."""
    rank: int
    """Number of the rank."""
    device: int | None
    """Index of its GPU; None for a bundle that lacks it."""
    step_time: Figure
    """Step of the clean pass."""
    launch_cpu_time: Figure
    """CPU time of the launches of a step, of the clean pass."""
    step: float | None = None
    """From begin to end of a step on the CPU, in ns."""
    communication: float | None = None
    """Union of its collectives, in ns."""
    exposed: float | None = None
    """The part of ``communication`` in which its GPU ran nothing else, in ns."""
    compute: float | None = None
    """Union of all other work, in ns."""
    busy: float | None = None
    """``compute`` and ``exposed`` together, in ns."""
    wait: float | None = None
    """Its collectives until the last rank arrived, summed over those that all ranks have, in ns."""
    exposed_wait: float | None = None
    """The part of ``wait`` in which its GPU ran nothing else, in ns."""
    transfer: float | None = None
    """The rest of the same collectives, in ns."""

    @property
    def name(self) -> str:
        """The run's name."""
        return self.run.name


class Lateness(Struct, frozen=True):
    """How late one rank comes. Times are means per traced step."""

    rank: int
    """Number of the rank."""
    count: int
    """Collectives of all traced steps that it reached last."""
    clear: int
    """Those of them that are beyond the clocks' spread."""
    total: float
    """How long after the first rank it reached them, in ns."""
    alone: float
    """How long after the last but one: what they would have begun earlier without it, in ns. Of two
    ranks the same."""
    work: float
    """What of that is due to GPU work since the collective before that took longer than the first
    rank's, in ns."""
    idle: float
    """What of that is due to more idle GPU time in between (launched later), in ns. The remainder
    is due to ends of the collective before that lay apart."""


class CollectiveRow(Struct, frozen=True):
    """One collective of the step, over the traced steps."""

    ordinal: int
    """Its number within the step, from 0."""
    kind: Collective
    """What it does."""
    origin: CollectiveOrigin
    """Where it comes from on the first rank."""
    skew: Summary
    """From the first to the last start, in ns."""
    transfer: Summary
    """From the last start to the last end, in ns."""
    arrival: tuple[Summary, ...]
    """For each rank its start after that of the rank that came first, in ns."""
    wait: tuple[Summary, ...]
    """For each rank its wait for the last, in ns."""
    last: tuple[int, ...]
    """For each rank how often it was the last."""

    @property
    def bandwidth(self) -> float | None:
        """Bytes that a rank gives to it over its median transfer, in bytes per second."""
        size = self.origin.bytes
        return (
            None if size is None or not self.transfer.median else size / self.transfer.median * 1e9
        )


class ModeRanks(Struct, frozen=True):
    """The ranks of one mode, or of one recorded program."""

    name: str
    """The mode, or the program's name."""
    mode: ExecutionMode
    """How the step was run."""
    ranks: tuple[RankRow, ...]
    """By rank."""
    missing: tuple[int, ...]
    """Ranks of the world that have no run here."""
    graphs: tuple[GraphDifference, ...]
    """Where the captured graphs of later ranks differ from the first rank's."""
    clocks: tuple[RankClock, ...]
    """A clock for each rank; empty without ``collectives``."""
    collectives: tuple[CollectiveRow, ...]
    """Those that all ranks have, by their number within the step."""
    kinds: dict[Collective, int]
    """Collectives of the first rank's first step, by kind."""
    unmatched: int
    """Collectives of the traced steps without a partner on another rank."""
    steps: int
    """Traced steps that all ranks have."""
    skew: Summary | None
    """From the first to the last start of all collectives, in ns; None without ``collectives``."""
    lateness: tuple[Lateness, ...]
    """For each rank how late it comes; empty without ``collectives``."""
    reason: str | None
    """Why there are no ``collectives``; None where there are."""

    @property
    def uncertainty(self) -> float | None:
        """Skew below this many ns cannot be told from the clocks' spread; None without clocks."""
        return max((clock.spread for clock in self.clocks), default=None)

    @property
    def slowest(self) -> RankRow | None:
        """The rank with the longest clean step: the step of the whole is as long."""
        timed = [row for row in self.ranks if row.step_time.value is not None]
        return max(timed, key=lambda row: row.step_time.value or 0.0, default=None)


def rank_comparison(experiment: Experiment) -> tuple[ModeRanks, ...]:
    """The modes of ``experiment`` that were collected by rank, in its order; empty where none is,
    or where each process ran alone under its launcher.

    Near-linear in the rows of the traces.
    """
    return tuple(
        _mode_ranks(name, runs)
        for name, runs in families(experiment).items()
        if any(map(is_rank_of_several, runs))
    )


def is_rank_of_several(run: Run) -> bool:
    """Whether ``run`` is a rank and, as far as its launcher told, not the only one."""
    return run.manifest.rank_of_several is not None


def families(experiment: Experiment) -> dict[str, list[Run]]:
    """The runs that are ranks, by rank, for each family (a mode, a recorded program, a job) in the
    order of the experiment. Jobs that tell the same of themselves are told apart by the names of
    their runs, where a rank is there twice."""
    by_name: dict[str, list[Run]] = {}
    for run in experiment.runs:
        if run.manifest.rank is not None:
            by_name.setdefault(family(run), []).append(run)
    for name, runs in list(by_name.items()):
        if len({run.manifest.rank for run in runs}) < len(runs):
            del by_name[name]
            for run in runs:
                job = run.name.removesuffix(f"-rank{run.manifest.rank}")
                by_name.setdefault(f"{name}: {job}", []).append(run)
    return {
        name: sorted(runs, key=lambda run: run.manifest.rank or 0) for name, runs in by_name.items()
    }


def _mode_ranks(name: str, runs: list[Run]) -> ModeRanks:
    traces = [rank_trace(run) for run in runs]
    present = [trace for trace in traces if isinstance(trace, RankTrace)]
    reason = _why_no_skew(runs, traces)
    measured = _Measured(present) if reason is None else None
    if measured is not None and not measured.clocks:
        reason, measured = _why_no_clocks(present, measured.instances), None
    rows = tuple(
        _row(run, trace, measured.sums(index) if measured else _NO_SUMS)
        for index, (run, trace) in enumerate(zip(runs, traces, strict=True))
    )
    return ModeRanks(
        name=name,
        mode=runs[0].mode,
        ranks=rows,
        missing=_missing(runs),
        graphs=differences(runs),
        clocks=measured.clocks if measured else (),
        collectives=measured.rows(origins(runs[0], measured.first_step())) if measured else (),
        kinds=_kinds(present),
        unmatched=measured.instances.unmatched if measured else 0,
        steps=measured.steps if measured else 0,
        skew=summarise(measured.skew) if measured else None,
        lateness=measured.lateness() if measured else (),
        reason=reason,
    )


def rank_trace(run: Run) -> RankTrace | Missing:
    """The run's traced steps with their communication."""
    trace = run.replay_trace
    if trace is None:
        return why_missing(run, Fact.TRACED_PASS)
    traced_steps = steps(trace)
    if not traced_steps or traced_steps[0].method is StepMethod.WHOLE:
        return Missing(Fact.TRACED_STEPS, "the trace marks no steps")
    return RankTrace(
        run.manifest.rank or 0, trace, traced_steps, communication(trace, traced_steps)
    )


def _why_no_skew(runs: list[Run], traces: list[RankTrace | Missing]) -> str | None:
    for run, trace in zip(runs, traces, strict=True):
        if isinstance(trace, Missing):
            return f"{run.name}: {trace.reason}"
    if len(runs) < 2:
        group = runs[0].manifest.group
        if group is not None and group.world_size == 1:
            return "there is one rank: it has no other to wait for"
        return "only one rank of several is here"
    return None


def _why_no_clocks(ranks: list[RankTrace], instances: MatchedCollectives) -> str:
    if len(instances):
        return "no collective ends on all ranks together, so that their clocks cannot be aligned"
    if any(len(communicated.rows) for rank in ranks for communicated in rank.communication):
        return "the ranks' traced steps have no collective in common"
    return "no communication kernel ran in the traced steps"


def _missing(runs: list[Run]) -> tuple[int, ...]:
    sizes = [run.manifest.group.world_size for run in runs if run.manifest.group is not None]
    present = {run.manifest.rank for run in runs}
    # A damaged manifest may tell any size; only the first few are named.
    return tuple(rank for rank in range(min(max(sizes, default=0), 4096)) if rank not in present)


def _kinds(ranks: list[RankTrace]) -> dict[Collective, int]:
    """Collectives per step by kind, of the first rank's first step."""
    counts: dict[Collective, int] = {}
    if ranks and ranks[0].communication:
        for kind in collective_kinds(ranks[0].trace, ranks[0].communication[0].rows):
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def _row(run: Run, trace: RankTrace | Missing, sums: Sums) -> RankRow:
    figures = {figure.metric.id: figure for figure in step_figures(run)}
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
        step=_median([step.duration_ns for step in traced_steps]),
        communication=_median([part.total_ns for part in parts]),
        exposed=_median([part.exposed_ns for part in parts]),
        compute=_median([part.compute_ns for part in parts]),
        busy=_median([part.compute_ns + part.exposed_ns for part in parts]),
        wait=sums[0],
        exposed_wait=sums[1],
        transfer=sums[2],
    )


def _median(values: list[int]) -> float | None:
    return float(median(values)) if values else None


class _Measured:
    """The collectives that all ranks have, on one clock."""

    def __init__(self, ranks: list[RankTrace]) -> None:
        self._ranks = ranks
        self.instances: MatchedCollectives = match_instances(ranks)
        self.clocks = align_clocks(ranks, self.instances)
        if not self.clocks:
            return
        self._start = on_one_clock(ranks, self.clocks, self.instances.start)
        self._end = on_one_clock(ranks, self.clocks, self.instances.end)
        first, last = self._start.min(axis=1), self._start.max(axis=1)
        self.skew: Ints = last - first
        self._arrival = self._start - first[:, None]
        # A collective that by these clocks ended before the last began waited all along.
        self.waits: Ints = np.minimum(self._end, last[:, None]) - self._start
        self.transfers: Ints = (self._end - self._start) - self.waits
        self._compute = [_compute_lane(rank) for rank in ranks]
        self.exposed_waits: Ints = self.waits - self._hidden(self.waits)
        self._last = self._start.argmax(axis=1)
        self.steps = len(np.unique(self.instances.step))

    def sums(self, rank: int) -> Sums:
        """Wait, exposed wait and transfer of the rank with this index: medians of the sums by
        step."""
        _, step = np.unique(self.instances.step, return_inverse=True)
        wait, exposed, transfer = (
            float(np.median(np.bincount(step.ravel(), weights=values[:, rank])))
            for values in (self.waits, self.exposed_waits, self.transfers)
        )
        return wait, exposed, transfer

    def _hidden(self, waits: Ints) -> Ints:
        """How much of each wait the rank's GPU spent on other work."""
        hidden = np.zeros_like(waits)
        for index, lane in enumerate(self._compute):
            if len(lane):
                begin = self.instances.start[:, index]
                until = lane.busy_before(0, begin + waits[:, index])
                hidden[:, index] = until - lane.busy_before(0, begin)
        return hidden

    def first_step(self) -> Ints:
        """The rows of the first rank's trace for the collectives of the first common step."""
        first = self.instances.step == self.instances.step[0]
        return np.asarray(self.instances.row[first, 0], dtype=np.int64)

    def rows(self, step_origins: list[CollectiveOrigin]) -> tuple[CollectiveRow, ...]:
        """Each collective over the steps; ``step_origins`` are those of the first step."""
        rows = []
        nowhere = CollectiveOrigin("none", None, None, None, None, None)
        for ordinal in range(int(self.instances.ordinal.max()) + 1):
            instances = np.flatnonzero(self.instances.ordinal == ordinal)
            summaries = [
                summarise(values) for values in (self.skew[instances], self._transfer(instances))
            ]
            skew, transfer = (_required(summary) for summary in summaries)
            rows.append(
                CollectiveRow(
                    ordinal=ordinal,
                    kind=self.instances.kinds[int(instances[0])],
                    origin=step_origins[ordinal] if ordinal < len(step_origins) else nowhere,
                    skew=skew,
                    transfer=transfer,
                    arrival=self._by_rank(self._arrival[instances]),
                    wait=self._by_rank(self.waits[instances]),
                    last=tuple(
                        np.bincount(self._last[instances], minlength=len(self._ranks)).tolist()
                    ),
                )
            )
        return tuple(rows)

    def _transfer(self, at: Ints) -> Ints:
        took = self._end[at].max(axis=1) - self._start[at].max(axis=1)
        return np.asarray(np.maximum(took, 0), dtype=np.int64)

    def _by_rank(self, values: Ints) -> tuple[Summary, ...]:
        return tuple(_required(summarise(column)) for column in values.T)

    def lateness(self) -> tuple[Lateness, ...]:
        """For each rank how late it comes, and how much of it longer work explains."""
        work, gap = self._before()
        spread = max(clock.spread for clock in self.clocks)
        behind = np.diff(np.sort(self._start, axis=1)[:, -2:], axis=1).ravel()
        early = self._start.argmin(axis=1)
        every_instance = np.arange(len(early))
        more_work = work[every_instance, self._last] - work[every_instance, early]
        more_idle = gap[every_instance, self._last] - gap[every_instance, early]
        return tuple(
            Lateness(
                rank=rank.rank,
                count=int(last_here.sum()),
                clear=int((last_here & (self.skew > spread)).sum()),
                total=float(self.skew[last_here].sum()) / self.steps,
                alone=float(behind[last_here].sum()) / self.steps,
                work=float(more_work[last_here].sum()) / self.steps,
                idle=float(more_idle[last_here].sum()) / self.steps,
            )
            for index, rank in enumerate(self._ranks)
            for last_here in [self._last == index]
        )

    def _before(self) -> tuple[Ints, Ints]:
        """For each instance and rank: GPU work, and idle time, since the collective before; in ns
        of the rank's own clock. 0 for the first, and where collectives overlap on some rank."""
        start, end = self.instances.start, self.instances.end
        work, idle = np.zeros_like(start), np.zeros_like(start)
        clear = np.append(False, (start[1:] >= end[:-1]).all(axis=1))
        for index, busy in enumerate(self._compute):
            # Instances by the first rank's order need not ascend on another.
            before = busy.busy_before(0, end[:-1, index]) if len(busy) else np.zeros(len(start) - 1)
            until = busy.busy_before(0, start[1:, index]) if len(busy) else before
            work[1:, index] = until - before
            idle[1:, index] = start[1:, index] - end[:-1, index] - work[1:, index]
        work[~clear], idle[~clear] = 0, 0
        return work, idle


def _compute_lane(rank: RankTrace) -> LaneSet:
    """One lane of the periods in which the rank's GPU runs anything but communication."""
    gpu = rank.trace.gpu
    others = ~is_communication(rank.trace)
    start = column(gpu, "ts")[others]
    end = start + np.maximum(column(gpu, "dur")[others], 0)
    return merge_busy(np.zeros(len(start), dtype=np.int64), start, end)


def _required(summary: Summary | None) -> Summary:
    if summary is None:
        raise ValueError("a collective without instances")
    return summary
