"""Breakdown of the step time difference between the baseline and a run.

The totals are the two clean medians; the traced passes only divide them (see clean_step_model.py).
Recorded programs have no clean pass, so their totals are the traced steps, which are never mixed
with steps of the program's loop. The part of a step that the model does not explain is the
remainder; it is never distributed. Parts are integers in ns and add up to the difference exactly.

The run compiled without graphs is the intermediate point.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.step_comparison.clean_step_model import (
    StepModel,
    find_last_arrivals,
    model_step,
)
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, WorkItem
from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs, pair_work
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run

STEP_LEVEL: Final = "(whole step)"
"""Label for time without a piece of work: the end of the step, and the remainder."""

NO_OPERATOR: Final = "(no operator)"


class Basis(StrEnum):
    """Source of the step times."""

    CLEAN = "clean"
    TRACED = "traced"
    """Traced steps, which the profiler slows."""


class Cause(StrEnum):
    """Parts of a difference, in display order."""

    GAPS = "launch gaps"
    KERNELS = "kernels"
    COPIES = "memcpy and memset"
    OVERLAP = "overlap"
    SYNCHRONISATION = "synchronisation"
    RANKS = "waiting for ranks"
    REMAINDER = "remainder"


class CauseTimes(Struct, frozen=True):
    """A time or a difference of times, by cause, in ns."""

    gaps: int = 0
    """Idle time due to late launches."""
    kernels: int = 0
    """Kernel durations, without waits for other ranks."""
    copies: int = 0
    """Durations of memcpys and memsets."""
    overlap: int = 0
    """Minus the time that concurrent work makes these durations count more than once."""
    synchronisation: int = 0
    """Idle time in synchronising calls, and the return from the last."""
    ranks: int = 0
    """Time in which collectives only wait for other ranks."""
    remainder: int = 0
    """Clean time that the model does not explain."""

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(self._get_parts())

    def __add__(self, other: CauseTimes) -> CauseTimes:
        return CauseTimes(*map(operator.add, self._get_parts(), other._get_parts()))

    def __sub__(self, other: CauseTimes) -> CauseTimes:
        return CauseTimes(*map(operator.sub, self._get_parts(), other._get_parts()))

    def list_items(self) -> tuple[tuple[Cause, int], ...]:
        """Return the parts by cause, in order."""
        return tuple(zip(Cause, self._get_parts(), strict=True))

    def _get_parts(self) -> tuple[int, ...]:
        # Summed for each piece of work: the copying dataclasses.astuple needed a fifth of a
        # comparison.
        return (
            *(self.gaps, self.kernels, self.copies, self.overlap),
            *(self.synchronisation, self.ranks, self.remainder),
        )


class StepShare(Struct, frozen=True):
    """Times of the step that belong to one module or operator, in both runs."""

    label: str
    before: CauseTimes
    """Times in the baseline's step."""
    after: CauseTimes
    """Times in the run's step."""
    items: tuple[int, int]
    """Pieces of work in both steps, baseline first."""

    @property
    def saved(self) -> CauseTimes:
        """Time saved by the run; negative if it is slower."""
        return self.before - self.after


class Waterfall(Struct, frozen=True):
    """Breakdown of the difference between one run and its baseline, in ns."""

    run: str
    baseline: str
    basis: Basis
    before_ns: int
    """Median step time, rounded to whole ns."""
    after_ns: int
    before: CauseTimes
    after: CauseTimes
    modules: tuple[StepShare, ...]
    """Both complete steps, largest saving first."""
    operators: tuple[StepShare, ...]
    """Both complete steps, largest saving first."""
    pairs: WorkPairs
    scales: tuple[float, float]
    """Factors for traced CPU times, of the baseline and the run."""

    @property
    def saved(self) -> CauseTimes:
        """Differences by cause."""
        return self.before - self.after

    @property
    def saved_by_cause(self) -> tuple[tuple[Cause, int], ...]:
        """Savings in order; overlap and rank waits only if present."""
        occurs = {Cause.RANKS: self.waits_for_ranks, Cause.OVERLAP: self.has_overlap}
        return tuple(item for item in self.saved.list_items() if occurs.get(item[0], True))

    @property
    def has_overlap(self) -> bool:
        """True if work overlaps in either step."""
        return bool(self.before.overlap or self.after.overlap)

    @property
    def waits_for_ranks(self) -> bool:
        """True if either step waits for other ranks."""
        return bool(self.before.ranks or self.after.ranks)

    @property
    def remainder_share(self) -> float:
        """Absolute remainder divided by the baseline's step."""
        return abs(self.saved.remainder) / self.before_ns if self.before_ns else 0.0


def find_collective_arrivals(
    runs: Sequence[tuple[Run, TypicalStep | Missing]],
) -> dict[int, int] | None:
    """Return when the last rank of one mode arrives at each collective in a clean step.

    None if a rank has no clean pass or typical step, or for one rank.
    """
    ranks = [
        (work, _compute_launch_cpu_ns(run))
        for run, work in runs
        if not isinstance(work, Missing) and run.clean is not None and run.clean.steps
    ]
    return find_last_arrivals(ranks) if len(ranks) == len(runs) > 1 else None


def build_waterfall(
    run: Run,
    baseline: Run,
    work: TypicalStep | Missing,
    base: TypicalStep | Missing,
    return_ns: int,
    latest_arrivals: tuple[dict[int, int] | None, dict[int, int] | None] = (None, None),
) -> Waterfall | Missing:
    """Build the breakdown of ``run`` against ``baseline``, or explain why there is none.

    ``work`` and ``base`` are their typical steps. ``return_ns`` is the minimum return time from the
    final synchronisation of any traced step in the experiment. ``latest_arrivals`` holds the
    :func:`find_collective_arrivals` of the baseline's and the run's ranks.
    """
    basis = Basis.TRACED if run.recording and baseline.recording else Basis.CLEAN
    for side in (run, baseline):
        if basis is Basis.CLEAN and (side.clean is None or not side.clean.steps):
            missing = explain_missing(side, Fact.STEP_TIMES)
            return missing if side is run else missing.add_owner(f"the baseline {side.name}")
    if isinstance(work, Missing):
        return work
    if isinstance(base, Missing):
        return base.add_owner(f"the baseline {baseline.name}")
    pairs = pair_work(base.without_step_times, work.without_step_times)
    if basis is Basis.CLEAN:
        before_ns, after_ns = _compute_step_ns(baseline), _compute_step_ns(run)
        cpu_before, cpu_after = _compute_launch_cpu_ns(baseline), _compute_launch_cpu_ns(run)
    else:
        before_ns, after_ns = base.step_ns, work.step_ns
        cpu_before, cpu_after = float(base.cpu_ns), float(work.cpu_ns)
    first = model_step(base, cpu_before, return_ns, _find_dependencies(pairs), latest_arrivals[0])
    second = model_step(work, cpu_after, return_ns, None, latest_arrivals[1])
    before, after = _build_parts(base, first, before_ns), _build_parts(work, second, after_ns)
    models = (first, second)
    return Waterfall(
        run=run.name,
        baseline=baseline.name,
        basis=basis,
        before_ns=before_ns,
        after_ns=after_ns,
        before=before,
        after=after,
        modules=_build_shares(pairs, models, (before, after), _get_module),
        operators=_build_shares(pairs, models, (before, after), _get_operator),
        pairs=pairs,
        scales=(first.scale, second.scale),
    )


def _compute_step_ns(run: Run) -> int:
    steps = run.clean.steps if run.clean is not None else ()
    return int(np.rint(np.median([step.wall_ns for step in steps])))


def _compute_launch_cpu_ns(run: Run) -> float:
    steps = run.clean.steps if run.clean is not None else ()
    return float(np.median([step.launch_cpu_ns for step in steps]))


def _find_dependencies(pairs: WorkPairs) -> list[list[int]]:
    """Return the dependencies of the baseline's work on other streams, from its graph partners.

    A trace does not show the events that eager streams wait for.
    """
    partner = {row.after[0]: row.before[0] for row in pairs.rows if row.before and row.after}
    earlier_items: list[list[int]] = [[] for _ in pairs.before.items]
    for source, target in pairs.after.edges.tolist():
        source_item, target_item = partner.get(source), partner.get(target)
        if source_item is not None and target_item is not None and source_item < target_item:
            earlier_items[target_item].append(source_item)
    return earlier_items


def _build_item_parts(work: TypicalStep, model: StepModel) -> list[CauseTimes]:
    return [
        CauseTimes(
            gaps=waiting,
            kernels=duration_ns if item.kind == "kernel" else 0,
            copies=0 if item.kind == "kernel" else duration_ns,
            overlap=busy - duration_ns,
            synchronisation=blocked_ns,
            ranks=ranks,
        )
        for item, duration_ns, busy, waiting, blocked_ns, ranks in zip(
            work.items,
            (work.duration - work.rank_wait).tolist(),
            model.busy.tolist(),
            model.waiting.tolist(),
            model.blocked.tolist(),
            model.ranks.tolist(),
            strict=True,
        )
    ]


def _build_parts(work: TypicalStep, model: StepModel, step_ns: int) -> CauseTimes:
    explained_times = CauseTimes(gaps=model.cpu_tail_ns, synchronisation=model.return_ns)
    for part in _build_item_parts(work, model):
        explained_times += part
    return explained_times + CauseTimes(remainder=step_ns - explained_times.total)


def _build_shares(
    pairs: WorkPairs,
    models: tuple[StepModel, StepModel],
    wholes: tuple[CauseTimes, CauseTimes],
    label: Callable[[WorkItem, WorkItem], str],
) -> tuple[StepShare, ...]:
    """Divide both steps by ``label`` of each item and its partner in the run (itself if none)."""
    sides = (pairs.before, pairs.after)
    sums: list[dict[str, CauseTimes]] = [{}, {}]
    counts: list[dict[str, int]] = [{}, {}]
    rows_by_side = (pairs.baseline_rows, pairs.run_rows)
    for side, (work, model, rows) in enumerate(zip(sides, models, rows_by_side, strict=True)):
        for index, part in enumerate(_build_item_parts(work, model)):
            item = work.items[index]
            others = pairs.rows[rows[index]].after
            name = label(item, pairs.after.items[others[0]] if others else item)
            sums[side][name] = sums[side].get(name, CauseTimes()) + part
            counts[side][name] = counts[side].get(name, 0) + 1
        remaining = wholes[side] - _sum_parts(sums[side].values())
        sums[side][STEP_LEVEL] = remaining
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


def _sum_parts(parts: Iterable[CauseTimes]) -> CauseTimes:
    total = CauseTimes()
    for part in parts:
        total += part
    return total


def _get_module(item: WorkItem, partner: WorkItem) -> str:
    """Return the module of the node, which eager traces lack, or else the phase in parentheses."""
    return partner.origin.module or item.origin.module or f"({partner.origin.phase})"


def _get_operator(item: WorkItem, partner: WorkItem) -> str:
    # Use the outermost operator outside the autograd engine: the one that the user or autograd
    # called.
    for candidate in (item, partner):
        path = [name.removeprefix(_ENGINE) for name in candidate.origin.op_path]
        if path:
            return path[0]
    return NO_OPERATOR


_ENGINE: Final = "autograd::engine::evaluate_function: "


class CompileSavings(Struct, frozen=True):
    """Savings of a compiled run with graphs in two parts, which add up by cause."""

    run_without_graphs: str
    compilation: CauseTimes
    """Saving of that run over the baseline, in ns."""
    graphs: CauseTimes
    """Additional saving of the run with graphs, in ns."""


def split_compile_savings(
    waterfall: Waterfall | Missing, compile_waterfall: Waterfall | Missing
) -> CompileSavings | Missing:
    """Split the savings of ``waterfall`` into compilation and graphs.

    ``compile_waterfall`` compares the run without graphs with the same baseline.
    """
    if isinstance(waterfall, Missing):
        return waterfall
    if isinstance(compile_waterfall, Missing):
        return compile_waterfall
    compiling = compile_waterfall.saved
    return CompileSavings(compile_waterfall.run, compiling, waterfall.saved - compiling)
