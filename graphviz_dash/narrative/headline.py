"""The outcome of a comparison in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.failures import format_failed_stage, format_failure, get_failure_verb
from graphviz_dash.analysis.metrics.run_selection import get_family
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Pass
from graphviz_dash.narrative.answer import (
    describe_costs,
    describe_verdict,
    format_recorded_steps,
    format_statistic,
)
from graphviz_dash.narrative.prediction import format_predicted_gain
from graphviz_dash.units import (
    format_ns,
)

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison, RunComparison


def build_headline(comparison: Comparison) -> str:
    """Describe the fastest run with a baseline, or else the first failed run, the prediction for an
    eager run, or the baseline. For several ranks, describe the slowest."""
    runs, best = comparison.runs, comparison.best
    if best is not None:
        rank_runs = [run for run in runs if get_family(run.run) == get_family(best.run)]
        ranks = sum(run.run.manifest.job_rank is not None for run in rank_runs)
        slowest = f"; the slowest of {ranks} ranks" if ranks > 1 else ""
        return describe_run(best) + slowest
    shown = next((run for run in runs if run.failures), None)
    predicted = comparison.predicted_run
    if (
        shown is None
        and predicted is not None
        and not isinstance(predicted.graph_prediction, Missing)
    ):
        gain = format_predicted_gain(predicted.graph_prediction)
        suffix = f"; predicted {gain} with CUDA graphs" if gain else ""
        return f"{_describe_step(predicted)}{suffix}"
    shown = shown or (runs[0] if runs else None)
    return "no runs" if shown is None else describe_run(shown)


def _describe_step(run: RunComparison) -> str:
    """Describe the step time of ``run``; profiled if nothing else was timed."""
    traced = run["traced_step_time"]
    if run.step.value is not None or traced.value is None:
        return describe_run(run)
    return f"{escape_control_characters(run.name)} takes {traced.text} per step under the profiler"


def describe_run(run: RunComparison) -> str:
    """Describe the outcome of ``run``, compared with its baseline if it has one; printable."""
    name = escape_control_characters(run.name)
    step_ns, saving = run.step.value, run.saving.value
    if step_ns is None:
        if run.failures:
            return format_failure(name, run.failures[0])
        return f"{name} has no step time: {run.step.missing.reason if run.step.missing else ''}"
    if run.speedup.value is None or saving is None:
        context = format_statistic(run)
        steps = format_recorded_steps(run)
        parts = [
            f"{name}: {steps}" if steps else f"{name} takes {format_ns(step_ns)} per step{context}"
        ]
    else:
        parts = [describe_verdict(run).rstrip("."), *filter(None, [describe_costs(run)])]
    if run.run.manifest.status == "killed":
        return "; ".join([*parts, "the process was killed"])
    parts += [
        f"it {get_failure_verb(failure)} {format_failed_stage(failure)}"
        if failure.stage is Pass.RECORDED
        else f"its {failure.stage.value} pass failed"
        for failure in run.failures
    ]
    return "; ".join(parts)


def format_outcome(run: RunComparison) -> str:
    """Format the outcome next to a speedup: ``graph is faster than eager``."""
    if not run.replays_match:
        return f"as timed, but replays of {run.name} compute a different result"
    if run.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE:
        return f"no significant difference: {run.name} and {run.baseline}"
    word = "slower" if run.outcome is Outcome.SLOWER else "faster"
    if run.outcome in (Outcome.MODESTLY_FASTER, Outcome.SLIGHTLY_FASTER):
        word = f"{'modestly' if run.outcome is Outcome.MODESTLY_FASTER else 'marginally'} {word}"
    return f"{run.name} is {word} than {run.baseline}"


def join_names(names: Sequence[str]) -> str:
    """Join run names into the subject of a shared sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names)} each"
