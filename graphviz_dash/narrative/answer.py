"""Answer whether a run pays off: the gain, its cause and its cost. Each figure links to its
evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from operator import itemgetter
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.failures import format_failed_stage
from graphviz_dash.analysis.metrics.low_confidence import WorkloadMismatch
from graphviz_dash.analysis.prediction.predict import Recommendation
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Cause
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.prediction import (
    format_blocker,
    format_predicted_gain,
    format_prediction_verdict,
    format_verdict_figure,
)
from graphviz_dash.units import (
    format_bytes,
    format_ns,
    format_percent,
    format_ratio,
    pluralize,
)

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
    from graphviz_dash.analysis.prediction.predict import Prediction

_RECORDED_LOOP_NOTE: Final = (
    " Step times come from a recording of the program's loop, not from a clean pass."
)

_CAUSE_NOUNS: Final = {
    Cause.GAPS: "launch overhead",
    Cause.KERNELS: "kernel time",
    Cause.COPIES: "memcpy and memset time",
    Cause.OVERLAP: "overlap on the GPU",
    Cause.SYNCHRONISATION: "synchronisation",
    Cause.RANKS: "waiting for other ranks",
}
"""Noun for each part of the equation, if it is the largest."""


_MIN_CAUSE_SHARE: Final = 0.01
"""Share of the baseline's traced step below which a part explains nothing."""
_SKEWED_MEAN_RATIO: Final = 2.0
"""Ratio of mean to median step time from which the mean is not typical."""
_MIN_STEPS_FOR_PERCENTILES: Final = 20
"""Minimum number of steps for 5th and 95th percentiles."""

_LEADS: Final = {Outcome.FASTER: "Yes", Outcome.MODESTLY_FASTER: "Modest gain"}
"""First words of the answer if the run is more than slightly faster."""


class Evidence(StrEnum):
    """Evidence of a figure in the answer; values are anchors of the Compare page."""

    ITERATIONS = "iterations"
    WATERFALL = "waterfall"
    BREAK_EVEN = "break-even"
    FIGURES = "figures"
    TIME_BREAKDOWN = "where-the-time-goes"
    FAILURES = "failures"
    PREDICTED = "predicted"


class AnswerPart(Struct, frozen=True):
    """Part of the answer. ``evidence`` is set if it holds a figure, ``metric`` if the registry has
    it."""

    text: str
    evidence: Evidence | None = None
    metric: str | None = None


def format_answer(pieces: tuple[AnswerPart, ...]) -> str:
    """Return the answer as plain text."""
    return "".join(piece.text for piece in pieces)


def build_answer(comparison: Comparison) -> tuple[AnswerPart, ...]:
    """Answer whether graphs pay off, using the fastest run. Without a compared run, describe the
    obstacle or the prediction for an eager run. Empty if the baseline itself failed."""
    if comparison.best is not None:
        return build_run_answer(comparison.best)
    base = comparison[comparison.baseline] if comparison.baseline else None
    failed = next((run for run in comparison.runs if run.failures and run is not base), None)
    if failed is None and not any(run.failures for run in comparison.runs):
        base_run = comparison.predicted_run
        if base_run is None or isinstance(base_run.graph_prediction, Missing):
            return tuple(_explain_missing_comparison(comparison.runs))
        return tuple(_describe_prediction(base_run, base_run.graph_prediction))
    if failed is None or base is None or base.step.value is None:
        return ()
    return tuple(_describe_failure(failed, base, base.step.value))


def _describe_prediction(run: RunComparison, prediction: Prediction) -> Iterator[AnswerPart]:
    """Describe the prediction for ``run``, its first blocker and the idle time of its step."""
    verdict = escape_control_characters(format_prediction_verdict(prediction))
    before, figure, after = verdict.partition(format_verdict_figure(prediction))
    yield AnswerPart(before)
    yield AnswerPart(figure, Evidence.PREDICTED)
    yield AnswerPart(after)
    blockers = [blocker for blocker in prediction.blockers if blocker.certain]
    if prediction.recommendation is Recommendation.BLOCKED:
        yield AnswerPart(" Blocked by: ")
        yield AnswerPart(escape_control_characters(format_blocker(blockers[0])), Evidence.PREDICTED)
        yield AnswerPart(f", and {len(blockers) - 1} more." if len(blockers) > 1 else ".")
    idle = prediction.idle_ns / prediction.eager_ns if prediction.eager_ns else 0.0
    yield AnswerPart(" The GPU is idle for ")
    evidence = (
        Evidence.FIGURES if isinstance(run.time_by_category, Missing) else Evidence.TIME_BREAKDOWN
    )
    period = "time" if prediction.recommendation is Recommendation.NO_STEPS else "step"
    yield AnswerPart(f"{format_percent(idle)} of that {period}", evidence)
    yield AnswerPart(
        f". Predicted from the trace of {escape_control_characters(run.name)}; no graph was "
        "measured."
    )


def build_run_answer(run: RunComparison) -> tuple[AnswerPart, ...]:
    """Answer for ``run`` against its baseline; empty if it was not compared."""
    step_ns, saving = run.step.value, run.saving.value
    if run.speedup.value is None or step_ns is None or saving is None:
        return ()
    pieces = (
        *_describe_outcome(run, step_ns, saving),
        *_describe_cause(run, saving),
        *_describe_cost(run),
        AnswerPart("."),
    )
    return (*pieces, AnswerPart(_RECORDED_LOOP_NOTE)) if run.run.recording else pieces


def _explain_missing_comparison(runs: Sequence[RunComparison]) -> Iterator[AnswerPart]:
    """Explain why nothing was compared, with the step time of each run. Profiled times appear only
    if no run has others, and are labelled."""
    if not runs:
        return
    timed = [run for run in runs if run.step.value is not None]
    traced = [run for run in runs if run["traced_step_time"].value is not None]
    if len(runs) == 1:
        reason = "this experiment has one run"
        if isinstance(runs[0].graph_prediction, Missing) and not runs[0].run.graphs:
            reason += (
                f", and a graph cannot be predicted from it: {runs[0].graph_prediction.reason}"
            )
    elif not timed:
        reason = "no run has clean timings"
    else:
        reasons = (run.speedup.missing for run in runs if not run.is_baseline)
        reason = next((missing.reason for missing in reasons if missing is not None), "")
    lead = "No baseline" if len(runs) == 1 else "Not available"
    yield AnswerPart(f"{lead}: {escape_control_characters(reason)}.")
    lead = " Step time: " if timed else " Step time under the profiler: "
    for run in timed or traced:
        figure = run.step if timed else run["traced_step_time"]
        evidence = Evidence.ITERATIONS if timed else Evidence.FIGURES
        yield AnswerPart(lead)
        yield AnswerPart(figure.text, evidence, None if timed else figure.metric.id)
        if timed:
            yield from _describe_step_spread(run)
        if len(runs) > 1:
            yield AnswerPart(f" in {escape_control_characters(run.name)}")
        lead = ", "
    if timed or traced:
        yield AnswerPart(".")
    if len(runs) == 1:
        yield from _describe_graph_share(runs[0])


def _describe_step_spread(run: RunComparison) -> Iterator[AnswerPart]:
    """Show the spread of recorded steps if their mean is far above the median, as in a server that
    waits for requests."""
    recording, mean = run.run.recording, run.step.value
    if recording is None or mean is None or len(recording.step_ns) < _MIN_STEPS_FOR_PERCENTILES:
        return
    if mean > _SKEWED_MEAN_RATIO * median(recording.step_ns):
        twentieths = quantiles(recording.step_ns, n=20)
        span = f"{format_ns(twentieths[0])} to {format_ns(twentieths[-1])}"
        yield AnswerPart(f" on average, single steps {span} on the CPU")


def _describe_graph_share(run: RunComparison) -> Iterator[AnswerPart]:
    """Show the share of GPU time in graphs and the idle time that remains, for a run without a
    baseline."""
    graphed = None if isinstance(run.coverage, Missing) else run.coverage.time_share
    idle = None if isinstance(run.time_by_category, Missing) else run.time_by_category.idle_fraction
    if not graphed:
        return
    yield AnswerPart(" ")
    yield AnswerPart(f"{format_percent(graphed)} of its GPU time", Evidence.FIGURES)
    yield AnswerPart(" comes from graphs")
    if idle is not None:
        yield AnswerPart("; the GPU is idle in ")
        yield AnswerPart(f"{format_percent(idle)} of the step", Evidence.TIME_BREAKDOWN)
    yield AnswerPart(".")


def _describe_failure(
    run: RunComparison, base: RunComparison, step_ns: float
) -> Iterator[AnswerPart]:
    """Describe the failure of ``run`` and the idle time of a baseline step that graphs could
    save."""
    failure = run.failures[0]
    location = f" at {failure.location}" if failure.location else ""
    yield AnswerPart("Not in its current form: ")
    yield AnswerPart(
        escape_control_characters(f"{run.name} failed {format_failed_stage(failure)}{location}"),
        Evidence.FAILURES,
    )
    yield AnswerPart(f". Each step of {escape_control_characters(base.name)} takes ")
    yield AnswerPart(format_ns(step_ns), Evidence.ITERATIONS)
    idle_ns = None if isinstance(base.time_by_category, Missing) else base.time_by_category.idle_ns
    if idle_ns:
        idle = f"{format_ns(idle_ns)} ({format_percent(idle_ns / step_ns)})"
        yield AnswerPart("; the GPU is idle for ")
        yield AnswerPart(idle, Evidence.TIME_BREAKDOWN)
        yield AnswerPart(", the time that graphs could save")
    yield AnswerPart(".")
    if not isinstance(base.graph_prediction, Missing) and format_predicted_gain(
        base.graph_prediction
    ):
        yield AnswerPart(" With CUDA graphs it is predicted to be ")
        yield AnswerPart(format_predicted_gain(base.graph_prediction), Evidence.PREDICTED)
        yield AnswerPart(".")


def _describe_outcome(run: RunComparison, step_ns: float, saving: float) -> Iterator[AnswerPart]:
    name, baseline = (
        escape_control_characters(run.name),
        escape_control_characters(run.baseline or ""),
    )
    speedup = run.speedup
    times = AnswerPart(
        f"{format_ns(step_ns)} instead of {format_ns(step_ns + saving)} per step",
        Evidence.ITERATIONS,
    )
    if run.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE:
        yield AnswerPart(f"No significant difference between {name} and {baseline}: ")
        yield times
        yield AnswerPart(" (")
        spread = speedup.spread
        low, high = (format_ratio(end) for end in (spread.low, spread.high)) if spread else ("", "")
        interval = f"95% interval of the speedup {low} to {high}"
        yield AnswerPart(interval, Evidence.FIGURES, speedup.metric.id)
        yield AnswerPart(")")
        return
    slower = run.outcome is Outcome.SLOWER
    ratio = format_ratio(1 / (speedup.value or 1.0)) if slower else speedup.text
    figure = f"{ratio} {'slower' if slower else 'faster'}"
    if _has_other_workload(run):
        yield AnswerPart(f"Different workloads: {name} is ")
        yield AnswerPart(figure, Evidence.FIGURES, speedup.metric.id)
        yield AnswerPart(f" than {baseline}, ")
        yield times
        return
    if slower:
        yield AnswerPart(f"No: {name} is ")
    elif run.outcome is Outcome.WRONG_RESULT:
        yield AnswerPart("Not in its current form: ")
        yield AnswerPart("replays compute a different result", Evidence.FAILURES)
        yield AnswerPart(f". As timed, {name} is ")
    else:
        lead = _LEADS.get(run.outcome, "Marginal")
        yield AnswerPart(f"{lead}: {name} is ")
    yield AnswerPart(figure, Evidence.FIGURES, speedup.metric.id)
    yield AnswerPart(f" than {baseline}, ")
    yield times


def _has_other_workload(run: RunComparison) -> bool:
    """Return whether the run and its baseline run different programs."""
    caveats = (caveat for caveat in run.low_confidence if isinstance(caveat, WorkloadMismatch))
    return any(
        caveat.run_workload.factory != caveat.baseline_workload.factory for caveat in caveats
    )


def _describe_cause(run: RunComparison, saving: float) -> Iterator[AnswerPart]:
    """Name the largest part with the same sign as the total difference."""
    sign = 1 if saving >= 0 else -1
    if isinstance(run.waterfall, Missing):
        return
    parts = run.waterfall.saved_by_cause
    signed = [(sign * value, cause) for cause, value in parts if cause in _CAUSE_NOUNS]
    largest, cause = max(signed, default=(0, Cause.REMAINDER), key=itemgetter(0))
    if largest <= 0 or not saving:
        return
    noun = _CAUSE_NOUNS[cause]
    share = format_percent(min(1.0, largest / abs(saving)))
    # More overlap saves time, less overlap costs time.
    verb = "less" if (sign > 0) != (cause is Cause.OVERLAP) else "more"
    if run.waterfall.basis is Basis.TRACED:
        if largest < _MIN_CAUSE_SHARE * run.waterfall.before_ns:
            return
        yield AnswerPart("; under the profiler ")
        yield AnswerPart(f"{format_ns(largest)} {verb} {noun}", Evidence.WATERFALL)
        return
    yield AnswerPart("; ")
    suffix = f" ({share} of the difference)" if largest <= abs(saving) else ""
    yield AnswerPart(f"{format_ns(largest)} {verb} {noun}{suffix}", Evidence.WATERFALL)


def _describe_cost(run: RunComparison) -> Iterator[AnswerPart]:
    cost, replays = run["one_off_cost"], run["break_even"].value
    memory = run["peak_reserved_change"].value
    if cost.value is not None:
        yield AnswerPart(". One-time cost: ")
        yield AnswerPart(f"{cost.text}", Evidence.BREAK_EVEN)
        # A replay of one workload does not pay back the cost of another.
        pays = run.outcome is not Outcome.WRONG_RESULT and not _has_other_workload(run)
        if pays and replays is None:
            yield AnswerPart(", never paid back")
        elif pays and replays and run.outcome is not Outcome.NO_SIGNIFICANT_DIFFERENCE:
            yield AnswerPart(", paid back after ")
            yield AnswerPart(pluralize(round(replays), "step"), Evidence.BREAK_EVEN)
    elif cost.missing is not None and cost.missing.fact is Fact.COMPILE_TIME:
        yield AnswerPart(". The one-time cost of compilation was not timed")
    if memory is not None:
        yield AnswerPart(", with " if cost.value is not None else "; ")
        yield AnswerPart(_format_memory_change(memory), Evidence.FIGURES, "peak_reserved_change")


def _format_memory_change(change: float) -> str:
    if not change:
        return "unchanged peak memory"
    return f"{format_bytes(abs(change))} {'more' if change > 0 else 'less'} peak memory"
