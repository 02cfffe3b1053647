"""Result of a comparison: one record per run, and the fastest run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.comparison.break_even import BreakEven
from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.metrics.caveats import Caveat
from graphviz_dash.analysis.metrics.graph_coverage import Coverage
from graphviz_dash.analysis.metrics.recorded_step import StepStatistic
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.analysis.metrics.run_selection import (
    get_family,
    has_other_program,
    has_same_mode,
)
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.step_comparison.time_by_category import TimeByCategory
from graphviz_dash.analysis.step_comparison.waterfall import CompileSavings, Waterfall
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import ExecutionMode, Failure

if TYPE_CHECKING:
    from graphviz_dash.analysis.replay_check import ReplayDiagnosis
    from graphviz_dash.analysis.trace.integrity import TraceIntegrity
    from graphviz_dash.model.doctor import DoctorReport
    from graphviz_dash.model.run import Experiment, Run


class RunComparison(Struct, frozen=True, dict=True):
    """One run of a comparison."""

    run: Run
    baseline: str | None
    """Name of the baseline run; None for a baseline, and if there is none."""
    baseline_run: Run | None
    """The baseline run; None for a baseline, and if there is none."""
    is_baseline: bool
    """True for the baseline, including that of one rank."""
    metrics: tuple[MetricValue, ...]
    """All of the registry, in its order."""
    recorded_statistic: StepStatistic
    """Statistic that compares the recorded runs of the experiment."""
    outcome: Outcome
    replays_match: bool
    """False if a doctor found a different result of replays, of the run or its baseline."""
    time_by_category: TimeByCategory | Missing
    coverage: Coverage | Missing
    """Share of the traced steps that ran from graphs or stayed eager."""
    waterfall: Waterfall | Missing
    """Breakdown of the difference from the baseline."""
    compile_parts: CompileSavings | Missing
    """Split of the saving into compilation and graphs."""
    break_even: BreakEven | Missing
    """One-off cost in parts, and when it is paid back."""
    prediction: Prediction | Missing
    """Prediction from the eager run alone."""
    graph_prediction: Prediction | Missing
    """Prediction for one graph of the run's eager steps; missing for a run with graphs."""
    traced_steps: int
    """Steps in the replay trace; 0 without a trace, or if it has no separate steps."""
    integrity: TraceIntegrity | None
    """Completeness of the replay trace; None without a trace."""
    low_confidence: tuple[Caveat, ...]
    """Caveats; those of the headline first."""

    @property
    def name(self) -> str:
        """Name within the experiment."""
        return self.run.name

    @property
    def mode(self) -> ExecutionMode:
        """Execution mode."""
        return self.run.mode

    @property
    def is_other_program(self) -> bool:
        """True if the run and its baseline execute different programs."""
        return self.baseline_run is not None and has_other_program(self.run, self.baseline_run)

    @property
    def is_same_mode(self) -> bool:
        """True if the run and its baseline are versions of one mode."""
        return self.baseline_run is not None and has_same_mode(self.run, self.baseline_run)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Failures during collection."""
        return self.run.manifest.failures

    @property
    def step(self) -> MetricValue:
        """Step time: clean, or recorded for a recorded program, by the statistic of the
        comparison."""
        return self[self.recorded_statistic.metric if self.run.recording else "step_time"]

    @property
    def speedup(self) -> MetricValue:
        """Speedup over the baseline, by the same kind of time."""
        return self["recorded_speedup" if self.run.recording else "speedup"]

    @property
    def payback(self) -> MetricValue | None:
        """Replays that pay the one-off cost back; None if unknown or without a significant gain."""
        figure = self["break_even"]
        is_significant = self.outcome is not Outcome.NO_SIGNIFICANT_DIFFERENCE
        return figure if is_significant and figure.value is not None else None

    @property
    def saving(self) -> MetricValue:
        """Saving over the baseline, by the same kind of time."""
        return self["recorded_saving" if self.run.recording else "step_saving"]

    @cached_property
    def _by_id(self) -> dict[str, MetricValue]:
        return {figure.metric.id: figure for figure in self.metrics}

    def __getitem__(self, metric: str) -> MetricValue:
        """Return a metric of the registry (KeyError if unknown)."""
        return self._by_id[metric]


class Comparison(Struct, frozen=True):
    """All runs of an experiment compared with their baseline."""

    experiment: Experiment
    """Without runs that contain only a doctor's report."""
    baseline: str | None
    """Name of the baseline run, of the first rank if there are several; None without one."""
    runs: tuple[RunComparison, ...]
    """The baseline first; with several ranks, all runs of its mode."""
    examinations: tuple[tuple[str, DoctorReport], ...]
    """With findings, and the names of their runs."""
    replay_diagnoses: tuple[tuple[str, ReplayDiagnosis], ...] = ()
    """With faults, and the names of their runs."""

    def __getitem__(self, name: str) -> RunComparison:
        """Return the run called ``name`` (KeyError if there is none)."""
        return {run.name: run for run in self.runs}[name]

    @property
    def predicted_run(self) -> RunComparison | None:
        """Run whose eager steps predict the gain from a graph, preferably the baseline.

        None if runs were compared or a run with graphs has traced steps.
        """
        eager = [run for run in self.runs if not isinstance(run.graph_prediction, Missing)]
        graphed_runs = (run for run in self.runs if isinstance(run.graph_prediction, Missing))
        if self.best is not None or any(run["traced_step_time"].value for run in graphed_runs):
            return None
        return max(eager, key=lambda run: run.is_baseline, default=None)

    @property
    def gain(self) -> float | None:
        """Speedup of the best run, or the predicted speedup if no runs were compared.

        None if unknown, or if replays compute a different result.
        """
        if self.best is not None:
            return self.best.speedup.value if self.best.replays_match else None
        outlook = None if self.predicted_run is None else self.predicted_run.graph_prediction
        if not isinstance(outlook, Prediction) or isinstance(outlook.speedup, Missing):
            return None
        return outlook.speedup.value

    @property
    def main_graph_run(self) -> RunComparison | None:
        """The best run, or the only run with graphs if no runs were compared. None otherwise."""
        graph_runs = [run for run in self.runs if run.run.graphs]
        return self.best or (graph_runs[0] if len(graph_runs) == 1 else None)

    @property
    def best(self) -> RunComparison | None:
        """Fastest run relative to its baseline, as :func:`find_fastest` defines it."""
        return find_fastest(self.runs)


def find_fastest(runs: Sequence[RunComparison]) -> RunComparison | None:
    """Find the run with the highest speedup; None if none was compared.

    Prefers runs with correct results. The slowest rank represents a mode.
    """
    slowest: dict[object, RunComparison] = {}
    for run in runs:
        if run.speedup.value is None:
            continue
        group = run.name if run.run.manifest.rank is None else get_family(run.run)
        previous = slowest.get(group)
        if previous is None or _get_step_ns(run) > _get_step_ns(previous):
            slowest[group] = run
    return max(
        slowest.values(),
        key=lambda run: (run.replays_match, run.speedup.value or 0.0),
        default=None,
    )


def _get_step_ns(run: RunComparison) -> float:
    return run.step.value or 0.0
