"""Comparison of an experiment's runs, shared by the user interface, the CLI and the exports."""

from __future__ import annotations

from types import MappingProxyType

from graphviz_dash import progress
from graphviz_dash.analysis.comparison.break_even import break_even
from graphviz_dash.analysis.comparison.compile_parts import (
    compile_parts,
    compiled_without_graphs,
)
from graphviz_dash.analysis.comparison.families import MetricInputs, figures_of
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.comparison.traced_work import (
    MatchedReplays,
    TracedSteps,
    TracedWork,
    traced_work,
)
from graphviz_dash.analysis.comparison.unseen_graphs import unseen_graphs
from graphviz_dash.analysis.comparison.verdict import outcome
from graphviz_dash.analysis.doctor import replays_differ
from graphviz_dash.analysis.metrics import run_selection
from graphviz_dash.analysis.metrics.low_confidence import low_confidence
from graphviz_dash.analysis.prediction.evaluation import EagerPredictions, prediction_for
from graphviz_dash.errors import InputError
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Experiment, Run


def compare(
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
    replays_match = not any(replays_differ(report) for _, report in examined)
    experiment = run_selection.measured(experiment)
    baseline_run = _choose(experiment, baseline or experiment.baseline)
    work = traced_work(experiment, replays, traced_steps, compared=baseline_run is not None)
    predictions = EagerPredictions(work.steps)
    runs = []
    count = len(experiment.runs)
    for number, run in enumerate(experiment.runs):
        with progress.subtask(count + number, 2 * count):
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
    )


def _choose(experiment: Experiment, baseline: str | None) -> Run | None:
    if baseline is None:
        return run_selection.usual_baseline(experiment.runs)
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


def _against(run: Run, chosen: Run | None, experiment: Experiment) -> Run | Missing:
    """Return the baseline run of ``run``."""
    if chosen is None:
        kind = "recorded run without graphs" if run.recording else "eager run"
        return Missing(Fact.BASELINE, f"the experiment has no {kind}; choose another baseline")
    baseline = run_selection.partner(run, chosen, experiment)
    if baseline is None:
        reason = f"{chosen.mode.value} has no run of rank {run.manifest.rank}"
        return Missing(Fact.BASELINE, reason)
    return (
        Missing(Fact.BASELINE, "this run is the baseline")
        if baseline.name == run.name
        else baseline
    )


def _compare_run(
    run: Run,
    chosen: Run | None,
    experiment: Experiment,
    shared: tuple[TracedWork, EagerPredictions],
    *,
    replays: MatchedReplays,
    replays_match: bool,
) -> RunComparison:
    work, predictions = shared
    traced_steps = work.steps[run.name]
    baseline = _against(run, chosen, experiment)
    baseline_run = None if isinstance(baseline, Missing) else baseline
    compiled = compiled_without_graphs(run, experiment)
    inputs = MetricInputs(
        run=run,
        against=baseline,
        compiled=compiled,
        traced_steps=traced_steps,
        coverage=work.coverage(run),
        equation=work.equation(run, baseline),
        prediction=prediction_for(run, baseline, predictions),
    )
    figures = figures_of(inputs)
    replays_match = replays_match or not any(
        _as_one_graph(side) for side in (run, baseline_run) if side is not None
    )
    step = figures["recorded_step" if run.recording else "step_time"]
    speedup = figures["recorded_speedup" if run.recording else "speedup"]
    unseen_launches = unseen_graphs(run, replays.get(run.name))
    is_baseline = chosen is not None and baseline_run is None and _same_family(run, chosen)
    return RunComparison(
        run=run,
        baseline=baseline_run.name if baseline_run else None,
        is_baseline=is_baseline,
        figures=tuple(figures.values()),
        outcome=outcome(speedup, replays_match=replays_match, failed=bool(run.manifest.failures)),
        replays_match=replays_match,
        where=work.time_by_category(run, step, figures, untimed=run_selection.untimed(experiment)),
        coverage=inputs.coverage,
        waterfall=inputs.equation,
        compile_parts=compiled
        if isinstance(compiled, Missing)
        else compile_parts(inputs.equation, work.equation(compiled, baseline)),
        break_even=baseline
        if isinstance(baseline, Missing)
        else break_even(run, baseline, figures),
        prediction=inputs.prediction,
        outlook=predictions.of(run),
        low_confidence=(
            *low_confidence(run, baseline_run, figures, traced_steps),
            *((unseen_launches,) if unseen_launches is not None else ()),
        ),
    )


def _same_family(run: Run, chosen: Run) -> bool:
    return run_selection.family(run) == run_selection.family(chosen)


def _as_one_graph(run: Run) -> bool:
    """Check whether the replays are the whole-step replays that a doctor examined.

    Graphed callables, layers and compiled regions receive new inputs.
    """
    mode = run.mode
    return mode.captures_graphs and not (mode.captures_parts or run_selection.ran_eagerly(run))
