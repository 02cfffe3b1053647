"""What a comparison is: plain data, a run each, and which run leads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.comparison.break_even import BreakEven
from graphviz_dash.analysis.comparison.compile_parts import CompileParts
from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.metrics.graph_coverage import Coverage
from graphviz_dash.analysis.metrics.low_confidence import LowConfidence
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.analysis.metrics.run_selection import family
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.step_comparison.time_by_category import TimeByCategory
from graphviz_dash.analysis.step_comparison.waterfall import Waterfall
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import ExecutionMode, Failure

if TYPE_CHECKING:
    from graphviz_dash.model.doctor import DoctorReport
    from graphviz_dash.model.run import Experiment, Run


class RunComparison(Struct, frozen=True, dict=True):
    """One run of a comparison."""

    run: Run
    """The run itself."""
    baseline: str | None
    """Name of the run it is compared with; None for a baseline itself and where there is none."""
    is_baseline: bool
    """Whether it is the baseline, or that of one rank."""
    figures: tuple[Figure, ...]
    """Every metric of the registry, in its order."""
    outcome: Outcome
    """What its speedup comes to."""
    replays_match: bool
    """False where a doctor found that its replays, or those of its baseline, do other work than the
    step."""
    where: TimeByCategory | Missing
    """Where the time of its step goes."""
    coverage: Coverage | Missing
    """What of its traced steps ran from graphs, and what stayed eager."""
    waterfall: Waterfall | Missing
    """Where the difference to the baseline went."""
    compile_parts: CompileParts | Missing
    """What of it compiling gave, and what graphs gave."""
    break_even: BreakEven | Missing
    """What it costs once, in parts, and when that is paid back."""
    prediction: Prediction | Missing
    """What the eager run alone says of it."""
    outlook: Prediction | Missing
    """What its own eager steps say of one graph of them; missing for a run with graphs."""
    low_confidence: tuple[LowConfidence, ...]
    """Why figures are less sure than they look; those of the headline first."""

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


class Comparison(Struct, frozen=True):
    """All runs of an experiment against their baseline."""

    experiment: Experiment
    """The experiment, without runs that are nothing but a doctor's examination."""
    baseline: str | None
    """Name of the baseline run (of the first rank, if there are several); None if there is none."""
    runs: tuple[RunComparison, ...]
    """Its runs, the baseline first (of several ranks those of its mode), else in its order."""
    examinations: tuple[tuple[str, DoctorReport], ...]
    """The doctor's reports that found something, with the names of the runs that hold them."""

    def __getitem__(self, name: str) -> RunComparison:
        """The run called ``name`` (KeyError if there is none)."""
        return {run.name: run for run in self.runs}[name]

    @property
    def predicted(self) -> RunComparison | None:
        """The run whose own steps say what a graph of them would gain, where no run was compared
        and none with graphs has steps to look at: the baseline first; None where there is none."""
        eager = [run for run in self.runs if not isinstance(run.outlook, Missing)]
        graphed = (run for run in self.runs if isinstance(run.outlook, Missing))
        if self.best is not None or any(run["traced_step_time"].value for run in graphed):
            return None
        return max(eager, key=lambda run: run.is_baseline, default=None)

    @property
    def gain(self) -> float | None:
        """The speedup of the best run, or where none was compared the one that is predicted; None
        without either, and where replays do other work than the step."""
        if self.best is not None:
            return self.best.speedup.value if self.best.replays_match else None
        outlook = None if self.predicted is None else self.predicted.outlook
        if not isinstance(outlook, Prediction) or isinstance(outlook.speedup, Missing):
            return None
        return outlook.speedup.value

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
        slowest.values(),
        key=lambda run: (run.replays_match, run.speedup.value or 0.0),
        default=None,
    )


def _step_time(run: RunComparison) -> float:
    return run.step.value or 0.0
