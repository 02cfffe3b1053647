"""From the baseline's step time to the run's: where every nanosecond of the difference went.

The two clean medians are the whole; the traced passes only divide it (clean_step_model.py says
how). Of programs that were recorded as they are, which have no clean pass, the traced steps
themselves are the whole, and the equation says so: it is of steps under the profiler, never mixed
with those of the program's own loop. What the model of a step does not explain of its time is the
remainder: it is shown, and never spread over the other parts. Parts are integers in ns and add up
to the difference exactly.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.step_comparison.clean_step_model import (
    StepModel,
    last_arrivals,
    model_step,
)
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, WorkItem
from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs, pair_work
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

STEP_LEVEL: Final = "(whole step)"
"""Label of what belongs to no piece of work: the end of the step, and the remainder."""

NO_OPERATOR: Final = "(no operator)"


class Basis(StrEnum):
    """Which step times an equation divides."""

    CLEAN = "clean"
    """Those of the clean passes."""
    TRACED = "traced"
    """Those of the traced steps, which the profiler lengthens."""


class Cause(StrEnum):
    """The parts of a difference, in the order in which they are shown."""

    GAPS = "launch gaps"
    KERNELS = "kernels"
    COPIES = "memcpy and memset"
    OVERLAP = "overlap"
    SYNCHRONISATION = "synchronisation"
    RANKS = "waiting for ranks"
    REMAINDER = "remainder"


class CauseTimes(Struct, frozen=True):
    """A time, or a difference of times, by cause, in ns."""

    gaps: int = 0
    """Idle time of the GPU in which a launch was missing."""
    kernels: int = 0
    """Durations of kernels, without their waits for other ranks."""
    copies: int = 0
    """Durations of memcpys and memsets."""
    overlap: int = 0
    """Less than 0: the time that these durations count more than once, because work ran at the same
    time as work that had begun before it."""
    synchronisation: int = 0
    """Idle time in synchronising calls, and the return from the last one."""
    ranks: int = 0
    """Time in which collectives only wait for other ranks."""
    remainder: int = 0
    """What the model of the step does not explain of its clean time."""

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(self._each())

    def __add__(self, other: CauseTimes) -> CauseTimes:
        return CauseTimes(*map(operator.add, self._each(), other._each()))

    def __sub__(self, other: CauseTimes) -> CauseTimes:
        return CauseTimes(*map(operator.sub, self._each(), other._each()))

    def items(self) -> tuple[tuple[Cause, int], ...]:
        """Each cause with its part, in order."""
        return tuple(zip(Cause, self._each(), strict=True))

    def _each(self) -> tuple[int, ...]:
        # Added up for each piece of work: dataclasses.astuple, which copies what it finds, was a
        # fifth of a comparison.
        return (
            *(self.gaps, self.kernels, self.copies, self.overlap),
            *(self.synchronisation, self.ranks, self.remainder),
        )


class StepShare(Struct, frozen=True):
    """The step's times that belong to one module or operator, in both runs."""

    label: str
    """The module or operator, or STEP_LEVEL."""
    before: CauseTimes
    """Its times in the baseline's step."""
    after: CauseTimes
    """Its times in the run's step."""
    items: tuple[int, int]
    """How many pieces of work it has in the baseline's step and in the run's."""

    @property
    def saved(self) -> CauseTimes:
        """What the run takes less than the baseline; negative where it takes more."""
        return self.before - self.after


class Waterfall(Struct, frozen=True):
    """The equation of one run and its baseline, in ns."""

    run: str
    """Name of the run."""
    baseline: str
    """Name of the baseline."""
    basis: Basis
    """Which step times these are."""
    before_ns: int
    """Step time of the baseline: the median, rounded to whole ns."""
    after_ns: int
    """Step time of the run: the median, rounded to whole ns."""
    before: CauseTimes
    """Parts of the baseline's step time."""
    after: CauseTimes
    """Parts of the run's step time."""
    modules: tuple[StepShare, ...]
    """Both steps divided by module, each wholly, the largest saving first."""
    operators: tuple[StepShare, ...]
    """Both steps divided by operator, each wholly, the largest saving first."""
    pairs: WorkPairs
    """Which work of the run stands for which of the baseline."""
    scales: tuple[float, float]
    """The factors by which the traced instants of the CPU were scaled, of the baseline and the
    run."""

    @property
    def saved(self) -> CauseTimes:
        """The differences by cause."""
        return self.before - self.after

    @property
    def causes(self) -> tuple[tuple[Cause, int], ...]:
        """What was saved by cause, in order; overlap and waiting for ranks only where there was
        any."""
        occurs = {Cause.RANKS: self.waits_for_ranks, Cause.OVERLAP: self.overlaps}
        return tuple(item for item in self.saved.items() if occurs.get(item[0], True))

    @property
    def overlaps(self) -> bool:
        """Whether work runs at the same time as other work in either step."""
        return bool(self.before.overlap or self.after.overlap)

    @property
    def waits_for_ranks(self) -> bool:
        """Whether either step waits for other ranks."""
        return bool(self.before.ranks or self.after.ranks)

    @property
    def remainder_share(self) -> float:
        """The remainder by size, as a part of the baseline's step, from 0."""
        return abs(self.saved.remainder) / self.before_ns if self.before_ns else 0.0


def collective_arrivals(runs: Sequence[tuple[Run, TypicalStep | Missing]]) -> dict[int, int] | None:
    """When the last of the ranks of one mode arrives at each of their collectives in a clean step;
    None where one of them has no clean pass or no typical step, or there is one only."""
    ranks = [
        (work, _launch_cpu_ns(run))
        for run, work in runs
        if not isinstance(work, Missing) and run.clean is not None and run.clean.steps
    ]
    return last_arrivals(ranks) if len(ranks) == len(runs) > 1 else None


def waterfall(
    run: Run,
    baseline: Run,
    work: TypicalStep | Missing,
    base: TypicalStep | Missing,
    return_ns: int,
    last: tuple[dict[int, int] | None, dict[int, int] | None] = (None, None),
) -> Waterfall | Missing:
    """The equation of ``run`` against ``baseline``, or why there is none.

    ``work`` and ``base`` are their typical steps, or why they have none. ``return_ns`` is the least
    time that any traced step of the experiment took to return from its final synchronisation;
    ``last`` are the :func:`collective_arrivals` of the ranks of the baseline and of the run.
    """
    basis = Basis.TRACED if run.recording and baseline.recording else Basis.CLEAN
    for side in (run, baseline):
        if basis is Basis.CLEAN and (side.clean is None or not side.clean.steps):
            missing = why_missing(side, Fact.STEP_TIMES)
            return missing if side is run else missing.of(f"the baseline {side.name}")
    if isinstance(work, Missing):
        return work
    if isinstance(base, Missing):
        return base.of(f"the baseline {baseline.name}")
    pairs = pair_work(base.typical, work.typical)
    if basis is Basis.CLEAN:
        before_ns, after_ns = _step_ns(baseline), _step_ns(run)
        cpu_before, cpu_after = _launch_cpu_ns(baseline), _launch_cpu_ns(run)
    else:
        before_ns, after_ns = base.step_ns, work.step_ns
        cpu_before, cpu_after = float(base.cpu_ns), float(work.cpu_ns)
    first = model_step(base, cpu_before, return_ns, _depends(pairs), last[0])
    second = model_step(work, cpu_after, return_ns, None, last[1])
    before, after = _parts(base, first, before_ns), _parts(work, second, after_ns)
    models = (first, second)
    return Waterfall(
        run=run.name,
        baseline=baseline.name,
        basis=basis,
        before_ns=before_ns,
        after_ns=after_ns,
        before=before,
        after=after,
        modules=_shares(pairs, models, (before, after), _module),
        operators=_shares(pairs, models, (before, after), _operator),
        pairs=pairs,
        scales=(first.scale, second.scale),
    )


def _step_ns(run: Run) -> int:
    steps = run.clean.steps if run.clean is not None else ()
    return int(np.rint(np.median([step.wall_ns for step in steps])))


def _launch_cpu_ns(run: Run) -> float:
    steps = run.clean.steps if run.clean is not None else ()
    return float(np.median([step.launch_cpu_ns for step in steps]))


def _depends(pairs: WorkPairs) -> list[list[int]]:
    """What each piece of the baseline's work waits for on other streams, as the graph's edges tell
    of its partners: eager streams wait for events that a trace does not show."""
    partner = {row.after[0]: row.before[0] for row in pairs.rows if row.before and row.after}
    earlier: list[list[int]] = [[] for _ in pairs.before.items]
    for source, target in pairs.after.edges.tolist():
        source_item, target_item = partner.get(source), partner.get(target)
        if source_item is not None and target_item is not None and source_item < target_item:
            earlier[target_item].append(source_item)
    return earlier


def _item_parts(work: TypicalStep, model: StepModel) -> list[CauseTimes]:
    return [
        CauseTimes(
            gaps=waiting,
            kernels=took if item.kind == "kernel" else 0,
            copies=0 if item.kind == "kernel" else took,
            overlap=busy - took,
            synchronisation=blocked,
            ranks=ranks,
        )
        for item, took, busy, waiting, blocked, ranks in zip(
            work.items,
            (work.duration - work.rank_wait).tolist(),
            model.busy.tolist(),
            model.waiting.tolist(),
            model.blocked.tolist(),
            model.ranks.tolist(),
            strict=True,
        )
    ]


def _parts(work: TypicalStep, model: StepModel, step_ns: int) -> CauseTimes:
    explained = CauseTimes(gaps=model.after_ns, synchronisation=model.return_ns)
    for part in _item_parts(work, model):
        explained += part
    return explained + CauseTimes(remainder=step_ns - explained.total)


def _shares(
    pairs: WorkPairs,
    models: tuple[StepModel, StepModel],
    wholes: tuple[CauseTimes, CauseTimes],
    label: Callable[[WorkItem, WorkItem], str],
) -> tuple[StepShare, ...]:
    """Both steps divided by ``label`` of each item and its partner in the run (itself without)."""
    sides = (pairs.before, pairs.after)
    sums: list[dict[str, CauseTimes]] = [{}, {}]
    counts: list[dict[str, int]] = [{}, {}]
    for side, (work, model) in enumerate(zip(sides, models, strict=True)):
        rows = pairs.of_before if side == 0 else pairs.of_after
        for index, part in enumerate(_item_parts(work, model)):
            item = work.items[index]
            others = pairs.rows[rows[index]].after
            name = label(item, pairs.after.items[others[0]] if others else item)
            sums[side][name] = sums[side].get(name, CauseTimes()) + part
            counts[side][name] = counts[side].get(name, 0) + 1
        rest = wholes[side] - _sum(sums[side].values())
        sums[side][STEP_LEVEL] = rest
    shares = [
        StepShare(
            name,
            sums[0].get(name, CauseTimes()),
            sums[1].get(name, CauseTimes()),
            (counts[0].get(name, 0), counts[1].get(name, 0)),
        )
        for name in dict.fromkeys((*sums[0], *sums[1]))
    ]
    return tuple(sorted(shares, key=lambda share: (-abs(share.saved.total), share.label)))


def _sum(parts: Iterable[CauseTimes]) -> CauseTimes:
    whole = CauseTimes()
    for part in parts:
        whole += part
    return whole


def _module(item: WorkItem, partner: WorkItem) -> str:
    """The module of the node, which eager traces do not tell; else the phase in brackets."""
    return partner.origin.module or item.origin.module or f"({partner.origin.phase})"


def _operator(item: WorkItem, partner: WorkItem) -> str:
    # The outermost operator that is not the engine's: what the user or autograd called.
    for candidate in (item, partner):
        path = [name.removeprefix(_ENGINE) for name in candidate.origin.op_path]
        if path:
            return path[0]
    return NO_OPERATOR


_ENGINE: Final = "autograd::engine::evaluate_function: "
