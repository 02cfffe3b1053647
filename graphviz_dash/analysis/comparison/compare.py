"""Comparison of an experiment's runs, shared by the user interface, the CLI and the exports."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash import progress
from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.comparison.break_even import compute_break_even
from graphviz_dash.analysis.comparison.families import MetricInputs, compute_metrics
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.comparison.unseen_graphs import find_unseen_graphs
from graphviz_dash.analysis.comparison.verdict import decide_outcome
from graphviz_dash.analysis.doctor import has_differing_replays
from graphviz_dash.analysis.metrics import run_selection
from graphviz_dash.analysis.metrics.graph_coverage import (
    Coverage,
    compute_coverage,
    explain_eager_window,
)
from graphviz_dash.analysis.metrics.low_confidence import count_while_nodes, find_caveats
from graphviz_dash.analysis.metrics.program_step import select_statistic
from graphviz_dash.analysis.metrics.recorded_step import StepStatistic
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value
from graphviz_dash.analysis.metrics.run_selection import find_run_without_graphs
from graphviz_dash.analysis.prediction.evaluation import EagerPredictions, predict_from_baseline
from graphviz_dash.analysis.ranks.ranks import RankWaits, compute_rank_waits, group_rank_families
from graphviz_dash.analysis.replay_check import list_replay_diagnoses
from graphviz_dash.analysis.replays.replays import ReplayMatch
from graphviz_dash.analysis.step_comparison.clean_step_model import model_step
from graphviz_dash.analysis.step_comparison.time_by_category import (
    RankWaitTime,
    TimeByCategory,
    compute_time_by_category,
    compute_traced_wait_ns,
)
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, build_typical_step
from graphviz_dash.analysis.step_comparison.waterfall import (
    Waterfall,
    build_waterfall,
    find_collective_arrivals,
    split_compile_savings,
)
from graphviz_dash.analysis.trace.integrity import (
    TraceIntegrity,
    assess_integrity,
    select_complete_steps,
)
from graphviz_dash.analysis.trace.steps import Step, count_steps, find_steps
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Experiment, Run

TracedSteps: TypeAlias = Mapping[str, tuple[Step, ...]]
"""Traced steps by run name."""

MatchedReplays: TypeAlias = "Mapping[str, ReplayMatch | None]"
"""Matched replays by run name; None for runs without graphs or a trace."""


class TracedWork(Struct, frozen=True):
    """Traced steps of an experiment's runs."""

    steps: TracedSteps
    """Steps by run name; empty without a trace."""
    complete: Mapping[str, tuple[Step, ...] | Missing]
    """Steps with all their GPU work by run name, for runs with a trace."""
    integrity: Mapping[str, TraceIntegrity]
    """Completeness of the trace by run name, for runs with a trace."""
    typical: Mapping[str, TypicalStep | Missing]
    """Typical step by run name; empty if nothing is compared."""
    last_arrivals: Mapping[str, dict[int, int] | None]
    """Arrival of the last rank at each collective, by mode, in ns; None if unknown."""
    waits: Mapping[str, RankWaits]
    """Wait times of collectives, by name of runs with other ranks."""
    lacks_clean_times: bool
    """True if no run was timed without a profiler."""

    def compute_coverage(self, run: Run) -> Coverage | Missing:
        """Compute the share of the traced steps of ``run`` that ran from graphs."""
        if not run.mode.captures_graphs:
            return explain_missing(run, Fact.GRAPHS)
        if run.replay_trace is None:
            return explain_missing(run, Fact.TRACED_PASS)
        steps = self.complete[run.name]
        if isinstance(steps, Missing):
            return steps
        coverage = compute_coverage(run.replay_trace, steps)
        if isinstance(coverage, Missing) or coverage.nodes:
            return coverage
        return explain_eager_window(run) or coverage

    def divide_time(
        self,
        run: Run,
        step: MetricValue,
        figures: Mapping[str, MetricValue],
        coverage: Coverage | Missing,
    ) -> TimeByCategory | Missing:
        """Break down ``step`` by category, or the traced step time if only that is known. Missing
        if ``coverage`` shows that no traced step is like the others."""
        if isinstance(coverage, Missing) and coverage.fact is Fact.GRAPH_STEPS:
            return coverage
        busy, traced_ns = figures["gpu_busy"], figures["traced_step_time"]
        divided_ns = traced_ns if self.lacks_clean_times else step
        if divided_ns.value is None or busy.value is None or run.replay_trace is None:
            missing = (
                busy.missing if divided_ns.missing is None else step.missing or divided_ns.missing
            )
            return missing or explain_missing(run, Fact.TRACED_PASS)
        steps = self.complete[run.name]
        if isinstance(steps, Missing):
            return steps
        waiting = self._get_rank_wait(run)
        return compute_time_by_category(
            divided_ns.value,
            run.replay_trace,
            steps,
            waiting,
            profiled=self.lacks_clean_times,
            has_loops=count_while_nodes(run) > 0,
        )

    def _get_rank_wait(self, run: Run) -> RankWaitTime | None:
        """Compute the wait for other ranks: modelled for a clean step, else as traced."""
        waits, typical = self.waits.get(run.name), self.typical.get(run.name)
        if waits is None or run.replay_trace is None:
            return None
        arrivals = self.last_arrivals.get(run_selection.get_family(run))
        if isinstance(typical, TypicalStep) and arrivals is not None and run.clean is not None:
            launches = [step.launch_cpu_ns for step in run.clean.steps]
            model = model_step(typical, float(np.median(launches)), 0, None, arrivals)
            return RankWaitTime(waits.wait_ns, float(model.ranks.sum()))
        traced_ns = compute_traced_wait_ns(run.replay_trace, self.steps[run.name], waits.wait_ns)
        return RankWaitTime(waits.wait_ns, traced_ns)

    def compute_waterfall(self, run: Run, baseline: Run | Missing) -> Waterfall | Missing:
        """Break down the difference between ``run`` and its ``baseline``."""
        if isinstance(baseline, Missing):
            return baseline
        returns = [
            work.return_ns for work in self.typical.values() if not isinstance(work, Missing)
        ]
        return build_waterfall(
            run,
            baseline,
            self.typical[run.name],
            self.typical[baseline.name],
            return_ns=min(returns, default=0),
            latest_arrivals=(
                self.last_arrivals.get(run_selection.get_family(baseline)),
                self.last_arrivals.get(run_selection.get_family(run)),
            ),
        )


def collect_traced_work(
    experiment: Experiment,
    replays: MatchedReplays,
    traced_steps: TracedSteps,
    *,
    compared: bool,
    lacks_clean_times: bool,
) -> TracedWork:
    """Collect the traced work of the runs; typical steps only if ``compared``."""
    steps_by_run = {
        run.name: traced_steps.get(run.name) or _find_steps(run) for run in experiment.runs
    }
    integrity = {
        run.name: assess_integrity(run.replay_trace, steps_by_run[run.name])
        for run in experiment.runs
        if run.replay_trace is not None
    }
    complete = {
        run.name: select_complete_steps(
            run.replay_trace, steps_by_run[run.name], integrity[run.name]
        )
        for run in experiment.runs
        if run.replay_trace is not None
    }
    if not compared:
        return TracedWork(steps_by_run, complete, integrity, {}, {}, {}, lacks_clean_times)
    waits = compute_rank_waits(experiment)
    typical: dict[str, TypicalStep | Missing] = {}
    for number, run in enumerate(experiment.runs):
        with progress.report_subtask(number, 2 * len(experiment.runs)):
            steps = complete.get(run.name, ())
            if isinstance(steps, Missing):
                typical[run.name] = steps
                continue
            typical[run.name] = build_typical_step(
                run, waits.get(run.name), replays.get(run.name), steps
            )
    last_arrivals = {
        name: find_collective_arrivals([(run, typical[run.name]) for run in ranks])
        for name, ranks in group_rank_families(experiment).items()
    }
    return TracedWork(
        *(steps_by_run, complete, integrity, typical, last_arrivals, waits),
        lacks_clean_times=lacks_clean_times,
    )


def _find_steps(run: Run) -> tuple[Step, ...]:
    return find_steps(run.replay_trace) if run.replay_trace is not None else ()


def compare_runs(
    experiment: Experiment,
    baseline: str | None = None,
    replays: MatchedReplays = MappingProxyType({}),
    traced_steps: TracedSteps = MappingProxyType({}),
) -> Comparison:
    """Compare the runs of ``experiment``.

    With several ranks, each run is compared with the baseline's run of the same rank. Runs that
    contain only a doctor's report are excluded, unless there are no others.

    Args:
        experiment: the runs.
        baseline: name or mode of a run; default :func:`run_selection.select_baseline`.
        replays: matched replays by run name, if already computed.
        traced_steps: likewise.

    Raises:
        InputError: no run has the name or the mode ``baseline``.
    """
    examinations = [(run.name, run.doctor) for run in experiment.runs if run.doctor]
    diagnoses = list_replay_diagnoses(experiment.runs)
    replays_match = not (
        any(has_differing_replays(report) for _, report in examinations)
        or any(diagnosis.wrong for _, diagnosis in diagnoses)
    )
    experiment = run_selection.exclude_examinations(experiment)
    baseline_run = run_selection.find_baseline(experiment, baseline or experiment.baseline)
    work = collect_traced_work(
        experiment,
        replays,
        traced_steps,
        compared=baseline_run is not None,
        lacks_clean_times=run_selection.is_untimed(experiment),
    )
    statistic = select_statistic(experiment.runs)
    predictions = EagerPredictions(work.steps, work.integrity)
    runs = []
    count = len(experiment.runs)
    for number, run in enumerate(experiment.runs):
        with progress.report_subtask(count + number, 2 * count):
            runs.append(
                _compare_run(
                    run,
                    baseline_run,
                    experiment,
                    (work, predictions, statistic),
                    replays=replays,
                    replays_match=replays_match,
                )
            )
    runs.sort(key=lambda run: not run.is_baseline)
    return Comparison(
        experiment=experiment,
        baseline=baseline_run.name if baseline_run else None,
        runs=tuple(runs),
        examinations=tuple((name, report) for name, report in examinations if report.findings),
        replay_diagnoses=tuple(
            (name, diagnosis) for name, diagnosis in diagnoses if diagnosis.fault_count
        ),
    )


def _compare_run(
    run: Run,
    explicit_baseline: Run | None,
    experiment: Experiment,
    shared: tuple[TracedWork, EagerPredictions, StepStatistic],
    *,
    replays: MatchedReplays,
    replays_match: bool,
) -> RunComparison:
    work, predictions, statistic = shared
    traced_steps = work.steps[run.name]
    baseline = run_selection.find_baseline_of(run, explicit_baseline, experiment)
    baseline_run = None if isinstance(baseline, Missing) else baseline
    is_baseline = (
        explicit_baseline is not None
        and baseline_run is None
        and run_selection.get_family(run) == run_selection.get_family(explicit_baseline)
    )
    compiled_run = find_run_without_graphs(run, experiment)
    inputs = MetricInputs(
        run=run,
        baseline=baseline,
        compiled_run=compiled_run,
        traced_steps=traced_steps,
        integrity=work.integrity.get(run.name),
        coverage=work.compute_coverage(run),
        waterfall=work.compute_waterfall(run, baseline),
        prediction=predict_from_baseline(run, baseline, predictions),
        recorded_statistic=statistic,
    )
    graph_prediction = predictions.get(run)
    figures = compute_metrics(inputs)
    replays_match = replays_match or not any(
        _is_whole_step_graph(side) for side in (run, baseline_run) if side is not None
    )
    if not replays_match and figures["break_even"].value is not None:
        figures["break_even"] = make_missing_value("break_even", _WRONG_RESULT)
    step = figures[statistic.metric if run.recording else "step_time"]
    speedup = figures["recorded_speedup" if run.recording else "speedup"]
    return RunComparison(
        run=run,
        baseline=baseline_run.name if baseline_run else None,
        baseline_run=baseline_run,
        is_baseline=is_baseline,
        metrics=tuple(figures.values()),
        recorded_statistic=statistic,
        outcome=decide_outcome(
            speedup, replays_match=replays_match, failed=bool(run.manifest.failures)
        ),
        replays_match=replays_match,
        time_by_category=work.divide_time(run, step, figures, inputs.coverage),
        coverage=inputs.coverage,
        waterfall=inputs.waterfall,
        compile_parts=compiled_run
        if isinstance(compiled_run, Missing)
        else split_compile_savings(
            inputs.waterfall, work.compute_waterfall(compiled_run, baseline)
        ),
        break_even=baseline
        if isinstance(baseline, Missing)
        else compute_break_even(run, baseline, figures),
        prediction=inputs.prediction,
        graph_prediction=graph_prediction,
        traced_steps=count_steps(traced_steps),
        integrity=inputs.integrity,
        low_confidence=(
            *find_caveats(run, baseline_run, figures, traced_steps, inputs.integrity),
            *filter(None, (find_unseen_graphs(run, replays.get(run.name)),)),
        ),
    )


_WRONG_RESULT: Final = Missing(Fact.SAVING, "replays compute a different result")


def _is_whole_step_graph(run: Run) -> bool:
    """Check whether the replays are the whole-step replays that a doctor examined.

    Graphed callables, layers and compiled regions receive new inputs.
    """
    mode = run.mode
    return mode.captures_graphs and not (
        mode.captures_parts or run_selection.is_eager_recording(run)
    )
