"""Comparison of an experiment's runs, shared by the user interface, the CLI and the exports."""

from __future__ import annotations

from types import MappingProxyType

from graphviz_dash import progress
from graphviz_dash.analysis.comparison.break_even import compute_break_even
from graphviz_dash.analysis.comparison.compile_parts import (
    find_run_without_graphs,
    split_compile_savings,
)
from graphviz_dash.analysis.comparison.families import MetricInputs, compute_metrics
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.comparison.traced_work import (
    MatchedReplays,
    TracedSteps,
    TracedWork,
    collect_traced_work,
)
from graphviz_dash.analysis.comparison.unseen_graphs import find_unseen_graphs
from graphviz_dash.analysis.comparison.verdict import decide_outcome
from graphviz_dash.analysis.doctor import has_differing_replays
from graphviz_dash.analysis.metrics import run_selection
from graphviz_dash.analysis.metrics.low_confidence import find_caveats
from graphviz_dash.analysis.prediction.evaluation import EagerPredictions, predict_from_baseline
from graphviz_dash.analysis.replay_check import list_replay_diagnoses
from graphviz_dash.errors import InputError
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Experiment, Run


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
        experiment: the experiment.
        baseline: name or mode of a run; default ``run_selection.usual_baseline``.
        replays: matched replays by run name, if already computed.
        traced_steps: traced steps by run name, if already computed.

    Raises:
        InputError: no run has the name or the mode ``baseline``.
    """
    examined = [(run.name, run.doctor) for run in experiment.runs if run.doctor]
    diagnoses = list_replay_diagnoses(experiment.runs)
    replays_match = not (
        any(has_differing_replays(report) for _, report in examined)
        or any(diagnosis.wrong for _, diagnosis in diagnoses)
    )
    experiment = run_selection.exclude_examinations(experiment)
    baseline_run = _find_baseline(experiment, baseline or experiment.baseline)
    work = collect_traced_work(experiment, replays, traced_steps, compared=baseline_run is not None)
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
                    (work, predictions),
                    replays=replays,
                    replays_match=replays_match,
                )
            )
    runs.sort(key=lambda run: not run.is_baseline)
    return Comparison(
        experiment=experiment,
        baseline=baseline_run.name if baseline_run else None,
        runs=tuple(runs),
        examinations=tuple((name, report) for name, report in examined if report.findings),
        replay_diagnoses=tuple(
            (name, diagnosis) for name, diagnosis in diagnoses if diagnosis.fault_count
        ),
    )


def _find_baseline(experiment: Experiment, baseline: str | None) -> Run | None:
    if baseline is None:
        return run_selection.select_baseline(experiment.runs)
    for run in experiment.runs:
        if run.name == baseline:
            return run
    for run in experiment.runs:
        if run.mode.value == baseline:
            return run
    names = dict.fromkeys(name for run in experiment.runs for name in (run.name, run.mode.value))
    raise InputError(
        experiment.path,
        f"no run or mode {baseline!r}",
        f"one of {', '.join(names) or 'its runs (the experiment has none)'}",
    )


def _get_baseline_of(run: Run, baseline_run: Run | None, experiment: Experiment) -> Run | Missing:
    """Return the baseline run of ``run``."""
    if baseline_run is None:
        kind = "recorded run without graphs" if run.recording else "eager run"
        return Missing(Fact.BASELINE, f"the experiment has no {kind}; choose another baseline")
    baseline = run_selection.find_partner(run, baseline_run, experiment)
    if baseline is None:
        reason = f"{baseline_run.mode.value} has no run of rank {run.manifest.rank}"
        return Missing(Fact.BASELINE, reason)
    return (
        Missing(Fact.BASELINE, "this run is the baseline")
        if baseline.name == run.name
        else baseline
    )


def _compare_run(
    run: Run,
    chosen_baseline: Run | None,
    experiment: Experiment,
    shared: tuple[TracedWork, EagerPredictions],
    *,
    replays: MatchedReplays,
    replays_match: bool,
) -> RunComparison:
    work, predictions = shared
    traced_steps = work.steps[run.name]
    baseline = _get_baseline_of(run, chosen_baseline, experiment)
    baseline_run = None if isinstance(baseline, Missing) else baseline
    compiled = find_run_without_graphs(run, experiment)
    inputs = MetricInputs(
        run=run,
        baseline=baseline,
        compiled_run=compiled,
        traced_steps=traced_steps,
        integrity=work.integrity.get(run.name),
        coverage=work.compute_coverage(run),
        waterfall=work.compute_waterfall(run, baseline),
        prediction=predict_from_baseline(run, baseline, predictions),
    )
    figures = compute_metrics(inputs)
    replays_match = replays_match or not any(
        _is_whole_step_graph(side) for side in (run, baseline_run) if side is not None
    )
    step = figures["recorded_step" if run.recording else "step_time"]
    speedup = figures["recorded_speedup" if run.recording else "speedup"]
    unseen_launches = find_unseen_graphs(run, replays.get(run.name))
    is_baseline = (
        chosen_baseline is not None
        and baseline_run is None
        and _is_same_family(run, chosen_baseline)
    )
    return RunComparison(
        run=run,
        baseline=baseline_run.name if baseline_run else None,
        baseline_run=baseline_run,
        is_baseline=is_baseline,
        metrics=tuple(figures.values()),
        outcome=decide_outcome(
            speedup, replays_match=replays_match, failed=bool(run.manifest.failures)
        ),
        replays_match=replays_match,
        time_by_category=work.divide_time(
            run, step, figures, untimed=run_selection.is_untimed(experiment)
        ),
        coverage=inputs.coverage,
        waterfall=inputs.waterfall,
        compile_parts=compiled
        if isinstance(compiled, Missing)
        else split_compile_savings(inputs.waterfall, work.compute_waterfall(compiled, baseline)),
        break_even=baseline
        if isinstance(baseline, Missing)
        else compute_break_even(run, baseline, figures),
        prediction=inputs.prediction,
        graph_prediction=predictions.get(run),
        integrity=inputs.integrity,
        low_confidence=(
            *find_caveats(run, baseline_run, figures, traced_steps, inputs.integrity),
            *((unseen_launches,) if unseen_launches is not None else ()),
        ),
    )


def _is_same_family(run: Run, baseline: Run) -> bool:
    return run_selection.get_family(run) == run_selection.get_family(baseline)


def _is_whole_step_graph(run: Run) -> bool:
    """Check whether the replays are the whole-step replays that a doctor examined.

    Graphed callables, layers and compiled regions receive new inputs.
    """
    mode = run.mode
    return mode.captures_graphs and not (
        mode.captures_parts or run_selection.is_eager_recording(run)
    )
