"""What a comparison is: plain data, a run each, and which run leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from graphviz_dash.analysis.comparison.break_even import BreakEven
from graphviz_dash.analysis.metrics.graph_coverage import Coverage
from graphviz_dash.analysis.metrics.low_confidence import Weakness
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.analysis.metrics.run_selection import family
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.step.time_by_category import TimeByCategory
from graphviz_dash.analysis.step.waterfall import Waterfall
from graphviz_dash.model.run import ExecutionMode, Failure

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment, Run


class Evidence(StrEnum):
    """What a figure of the answer rests on; the values are anchors of the Compare page."""

    ITERATIONS = "iterations"
    WATERFALL = "waterfall"
    BREAK_EVEN = "break-even"
    FIGURES = "figures"
    WHERE = "where-the-time-goes"
    FAILURES = "failures"


@dataclass(frozen=True)
class Piece:
    """A stretch of the sentence; ``evidence`` for one that holds a figure, and ``metric`` where
    that is one of the registry, which the figures show by itself."""

    text: str
    evidence: Evidence | None = None
    metric: str | None = None


@dataclass(frozen=True)
class RunComparison:
    """One run of a comparison.

    ``figures`` has every metric of the registry, in its order. ``baseline`` is the name of the run
    it is compared with: None for a baseline itself (``is_baseline``) and where there is none, and
    then the figures that need one say why. ``where`` is None with a reason in ``where_reason``,
    ``coverage`` (what ran from graphs, and what stayed eager) with one in ``coverage_reason``.
    ``sentence`` says the outcome in words. ``waterfall`` (where the difference to the baseline
    went) is None with a reason in ``waterfall_reason``. ``answer`` says whether the run is worth
    it, in pieces that lead to their evidence. ``pays`` (what it costs once, in parts, and when that
    is paid back) is None with a reason in ``pays_reason``. ``prediction`` (what the eager run alone
    says of it) is None with a reason in ``prediction_reason``. ``sound`` is False where a doctor
    found that its replays, or those of its baseline, do other work than the step.
    """

    run: Run
    baseline: str | None
    is_baseline: bool
    figures: tuple[Figure, ...]
    where: TimeByCategory | None
    where_reason: str | None
    coverage: Coverage | None
    coverage_reason: str | None
    weaknesses: tuple[Weakness, ...]
    sentence: str
    waterfall: Waterfall | None
    waterfall_reason: str | None
    answer: tuple[Piece, ...]
    pays: BreakEven | None
    pays_reason: str | None
    prediction: Prediction | None
    prediction_reason: str | None
    sound: bool

    @property
    def name(self) -> str:
        """The run's name within its experiment."""
        return self.run.name

    @property
    def mode(self) -> ExecutionMode:
        """Its execution mode."""
        return self.run.mode

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What failed while it was collected."""
        return self.run.manifest.failures

    @property
    def step(self) -> Figure:
        """The time of its step: the clean one, or of a recorded program the recorded one."""
        return self["recorded_step" if self.run.recording else "step_time"]

    @property
    def speedup(self) -> Figure:
        """How much faster its step is than the baseline's, by the same kind of time."""
        return self["recorded_speedup" if self.run.recording else "speedup"]

    @property
    def saving(self) -> Figure:
        """What its step saves over the baseline's, by the same kind of time."""
        return self["recorded_saving" if self.run.recording else "step_saving"]

    @cached_property
    def _by_id(self) -> dict[str, Figure]:
        return {figure.metric.id: figure for figure in self.figures}

    def __getitem__(self, metric: str) -> Figure:
        """The figure of a metric of the registry (KeyError if there is no such metric)."""
        return self._by_id[metric]


@dataclass(frozen=True)
class Comparison:
    """All runs of an experiment, in its order, against their baseline.

    ``baseline`` is the name of the baseline run (of the first rank, if there are several), None if
    there is none. ``headline`` is the sentence of the fastest run. ``verdicts`` are those of the
    doctor's reports that found something, with the names of the runs that hold them.
    """

    experiment: Experiment
    baseline: str | None
    runs: tuple[RunComparison, ...]
    headline: str
    verdicts: tuple[tuple[str, str], ...]

    def __getitem__(self, name: str) -> RunComparison:
        """The run called ``name`` (KeyError if there is none)."""
        return {run.name: run for run in self.runs}[name]

    @property
    def answer(self) -> tuple[Piece, ...]:
        """Whether graphs are worth it: the answer of the fastest run; where none was compared, what
        stands in the way; empty where that is the failure of the baseline itself."""
        from graphviz_dash.narrative.answer import unanswered, uncompared

        best = self.best
        if best is not None:
            return best.answer
        base = self[self.baseline] if self.baseline else None
        failed = next((run for run in self.runs if run.failures and run is not base), None)
        if failed is None and not any(run.failures for run in self.runs):
            return uncompared(self.runs)
        if failed is None or base is None or base.step.value is None:
            return ()
        idle = base.where.idle_ns if base.where else None
        return unanswered(failed.name, failed.failures[0], base.name, base.step.value, idle)

    @property
    def best(self) -> RunComparison | None:
        """The run that is fastest against its baseline; None when none was compared. Of the ranks
        of one mode the slowest stands for them all: none is done before it."""
        return fastest(self.runs)


def fastest(runs: Sequence[RunComparison]) -> RunComparison | None:
    """The run that is fastest against its baseline, of those whose replays do the work of the step
    if there is one; None when none was compared. Of the ranks of one mode only the slowest one
    counts: none is done before it."""
    slowest: dict[object, RunComparison] = {}
    for run in runs:
        if run.speedup.value is None:
            continue
        group = run.name if run.run.manifest.rank is None else family(run.run)
        before = slowest.get(group)
        if before is None or _step_time(run) > _step_time(before):
            slowest[group] = run
    return max(
        slowest.values(), key=lambda run: (run.sound, run.speedup.value or 0.0), default=None
    )


def _step_time(run: RunComparison) -> float:
    return run.step.value or 0.0
