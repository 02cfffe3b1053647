"""Answer whether a run pays off: a verdict of at most 20 words, its cause, its costs and the next
step. Each figure links to its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from statistics import mean, median, quantiles
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.comparison.limits import BusyGpu, OutsideGraphs, find_limit
from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.failures import format_cause, format_failed_stage, get_failure_verb
from graphviz_dash.analysis.loop.family_report import build_loop_report
from graphviz_dash.analysis.metrics.graph_coverage import Reason
from graphviz_dash.analysis.metrics.low_confidence import count_while_nodes
from graphviz_dash.analysis.metrics.program_step import list_step_times
from graphviz_dash.analysis.metrics.run_selection import has_same_mode
from graphviz_dash.analysis.prediction.predict import Recommendation
from graphviz_dash.analysis.step_comparison.main_cause import MainCause, find_main_cause
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Cause
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.engine_steps import describe_eager_steps, describe_graph_share
from graphviz_dash.narrative.memory_change import list_memory_changes
from graphviz_dash.narrative.prediction import (
    describe_remaining_idle,
    format_blocker,
    format_predicted_gain,
    format_short_verdict,
    format_short_verdict_figure,
)
from graphviz_dash.units import (
    format_count,
    format_ns,
    format_percent,
    format_ratio,
    pluralize,
)

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
    from graphviz_dash.analysis.prediction.predict import Prediction
    from graphviz_dash.model.run import Run

CAUSE_NOUNS: Final = {
    Cause.GAPS: "launch overhead",
    Cause.KERNELS: "kernel time",
    Cause.COPIES: "memcpy and memset time",
    Cause.OVERLAP: "overlap on the GPU",
    Cause.SYNCHRONISATION: "synchronisation",
    Cause.RANKS: "waiting for other ranks",
}
"""Noun for the largest part of the equation."""

_SKEWED_MEAN_RATIO: Final = 2.0
"""Ratio of mean to median step time of an untypical mean."""
_MIN_STEPS_FOR_PERCENTILES: Final = 20
_NOTABLE_IDLE_SHARE: Final = 0.1

_LEADS: Final = {Outcome.FASTER: "Yes", Outcome.MODESTLY_FASTER: "Modest gain"}
"""First words if the run is more than slightly faster."""


class Evidence(StrEnum):
    """Evidence of a figure; values are anchors of the Compare page."""

    ITERATIONS = "iterations"
    WATERFALL = "waterfall"
    BREAK_EVEN = "break-even"
    FIGURES = "figures"
    TIME_BREAKDOWN = "where-the-time-goes"
    COVERAGE = "not-captured"
    KERNELS = "kernels"
    FAILURES = "failures"
    PREDICTED = "predicted"


class AnswerPart(Struct, frozen=True):
    """Part of the answer. ``evidence`` is set if it holds a figure, ``metric`` if the registry has
    it, ``page`` if it names another page."""

    text: str
    evidence: Evidence | None = None
    metric: str | None = None
    page: str | None = None


Parts = tuple[AnswerPart, ...]


class Answer(Struct, frozen=True):
    """Answer in one line with up to four labelled rows."""

    verdict: Parts
    """Verdict of at most 20 words."""
    because: Parts = ()
    """Cause of the verdict; empty if unknown."""
    costs: Parts = ()
    """One-time cost and memory; empty if unknown."""
    dates: Parts = ()
    """Dates of both runs, if they differ or both runs are versions of one mode."""
    next_step: Parts = ()

    @property
    def rows(self) -> tuple[tuple[str, Parts], ...]:
        """The rows that are not empty, with labels."""
        rows = (
            ("Because", self.because),
            ("Costs", self.costs),
            ("Recorded", self.dates),
            ("Next step", self.next_step),
        )
        return tuple(row for row in rows if row[1])


def format_parts(parts: Sequence[AnswerPart]) -> str:
    """Return parts of an answer as plain text."""
    return "".join(part.text for part in parts)


def format_answer(answer: Answer) -> str:
    """Return the answer as plain text, one line per row."""
    rows = [f"{label + ':':<11}{format_parts(parts)}" for label, parts in answer.rows]
    return "\n".join([format_parts(answer.verdict), *rows])


def build_answer(comparison: Comparison) -> Answer | None:
    """Answer for the fastest run. Without a compared run, describe the obstacle or the prediction
    for an eager run. None if the baseline itself failed."""
    if comparison.best is not None:
        return build_run_answer(comparison.best)
    base = comparison[comparison.baseline] if comparison.baseline else None
    failed_run = next(
        (run for run in comparison.runs if _is_failure(run) and run is not base), None
    )
    if failed_run is None and not any(_is_failure(run) for run in comparison.runs):
        base_run = comparison.predicted_run
        if base_run is None or isinstance(base_run.graph_prediction, Missing):
            return _explain_missing_comparison(comparison.runs)
        return _build_predicted_answer(base_run, base_run.graph_prediction)
    if failed_run is None or base is None or base.step.value is None:
        return None
    return _build_failure_answer(failed_run, base, base.step.value)


def build_run_answer(run: RunComparison) -> Answer | None:
    """Answer for ``run`` against its baseline; None if it was not compared."""
    step_ns, saving = run.step.value, run.saving.value
    if run.speedup.value is None or step_ns is None or saving is None:
        return None
    return Answer(
        verdict=tuple(_describe_outcome(run, step_ns, saving)),
        because=tuple(_describe_cause(run, saving)),
        costs=tuple(_describe_costs(run)),
        dates=() if run.baseline_run is None else _describe_dates(run.baseline_run, run.run),
        next_step=tuple(_describe_next_step(run)),
    )


def describe_verdict(run: RunComparison) -> str:
    """Return the verdict of a compared run as plain text; empty if it was not compared."""
    answer = build_run_answer(run)
    return "" if answer is None else format_parts(answer.verdict)


def describe_costs(run: RunComparison) -> str:
    """Return the costs of a compared run as plain text; empty if unknown."""
    return format_parts(tuple(_describe_costs(run)))


def name_main_cause(run: RunComparison) -> str:
    """Name the main cause, such as ``launch overhead``; empty if the difference is not significant
    or unexplained."""
    main = _find_cause(run)
    return "" if main is None else CAUSE_NOUNS[main.cause]


def _build_predicted_answer(run: RunComparison, prediction: Prediction) -> Answer:
    """Answer by the prediction, its first blocker and the idle time."""
    verdict = escape_control_characters(format_short_verdict(prediction))
    before, figure, after = verdict.partition(format_short_verdict_figure(prediction))
    return Answer(
        verdict=(AnswerPart(before), AnswerPart(figure, Evidence.PREDICTED), AnswerPart(after)),
        because=tuple(_describe_predicted_cause(run, prediction)),
        next_step=tuple(_describe_predicted_step(run, prediction)),
    )


def _describe_predicted_cause(run: RunComparison, prediction: Prediction) -> Iterator[AnswerPart]:
    idle = prediction.idle_ns / prediction.eager_ns if prediction.eager_ns else 0.0
    evidence = (
        Evidence.FIGURES if isinstance(run.time_by_category, Missing) else Evidence.TIME_BREAKDOWN
    )
    period = "time" if prediction.recommendation is Recommendation.NO_STEPS else "step"
    yield AnswerPart("the GPU is idle for ")
    yield AnswerPart(f"{format_percent(idle)} of that {period}", evidence)
    gain = format_predicted_gain(prediction)
    if gain:
        yield AnswerPart("; predicted gain ")
        yield AnswerPart(gain, Evidence.PREDICTED)
    name = escape_control_characters(run.name)
    yield AnswerPart(f"; from the trace of {name}, no graph was measured")


def _describe_predicted_step(run: RunComparison, prediction: Prediction) -> Iterator[AnswerPart]:
    blockers = [blocker for blocker in prediction.blockers if blocker.certain]
    if prediction.recommendation is Recommendation.BLOCKED:
        yield AnswerPart("fix ")
        yield AnswerPart(escape_control_characters(format_blocker(blockers[0])), Evidence.PREDICTED)
        if len(blockers) > 1:
            yield AnswerPart(", and ")
            yield AnswerPart(f"{len(blockers) - 1} more", Evidence.PREDICTED)
    elif remaining := describe_remaining_idle(prediction):
        yield AnswerPart(escape_control_characters(remaining).rstrip("."), Evidence.PREDICTED)
    elif prediction.recommendation is Recommendation.NO:
        yield AnswerPart("optimize ")
        yield AnswerPart("the kernels", Evidence.KERNELS)
        yield AnswerPart(f" of {escape_control_characters(run.name)} instead of its launches")
    else:
        yield AnswerPart("capture the step and record it next to this run")


def _explain_missing_comparison(runs: Sequence[RunComparison]) -> Answer | None:
    """Explain why nothing was compared, with step times. Profiled times appear only if no run has
    others."""
    if not runs:
        return None
    engine = _build_engine_answer(runs[0]) if len(runs) == 1 else None
    if engine is not None:
        return engine
    lead = "No baseline" if len(runs) == 1 else "Nothing to compare"
    return Answer(
        verdict=(AnswerPart(lead), *_describe_step_times(runs)),
        because=(AnswerPart(escape_control_characters(_find_missing_reason(runs))),),
        dates=_describe_days(*(run.run for run in runs)) if len(runs) == _PAIR else (),
        next_step=tuple(_describe_graph_share(runs[0])) if len(runs) == 1 else (),
    )


def _build_engine_answer(run: RunComparison) -> Answer | None:
    """Answer by an engine's steps with and without graphs; None if unknown."""
    report = build_loop_report(run.run)
    if isinstance(report, Missing):
        return None
    verdict = describe_graph_share(report)
    if verdict is None:
        return None
    return Answer(
        verdict=(AnswerPart(verdict),),
        because=tuple(map(AnswerPart, describe_eager_steps(report)[:1])),
        next_step=(
            AnswerPart("compare capture sizes on "),
            AnswerPart("Graph", page="graph"),
            AnswerPart("; record a run without graphs as baseline"),
        ),
    )


def _is_failure(run: RunComparison) -> bool:
    """Check whether a pass failed. A killed program is no failure: its recording is usable."""
    return bool(run.failures) and run.run.manifest.status != "killed"


def _find_missing_reason(runs: Sequence[RunComparison]) -> str:
    if len(runs) == 1:
        reason = "this experiment has one run"
        if isinstance(runs[0].graph_prediction, Missing) and not runs[0].run.graphs:
            reason += (
                f", and a graph cannot be predicted from it: {runs[0].graph_prediction.reason}"
            )
        return reason
    if all(run.step.value is None for run in runs):
        return "no run has clean timings"
    reasons = (run.speedup.missing for run in runs if not run.is_baseline)
    return next((missing.reason for missing in reasons if missing is not None), "")


def _describe_step_times(runs: Sequence[RunComparison]) -> Iterator[AnswerPart]:
    """Show the step times of the first runs."""
    timed_runs = [run for run in runs if run.step.value is not None]
    traced_runs = [run for run in runs if run["traced_step_time"].value is not None]
    times = timed_runs or traced_runs
    lead = ": " if timed_runs else ": under the profiler, "
    for run in times[:_MAX_STEP_TIMES]:
        figure = run.step if timed_runs else run["traced_step_time"]
        evidence = Evidence.ITERATIONS if timed_runs else Evidence.FIGURES
        yield AnswerPart(lead)
        spread = format_recorded_steps(run) if timed_runs else ""
        yield AnswerPart(spread or figure.text, evidence, None if timed_runs else figure.metric.id)
        if not spread:
            yield AnswerPart(" per step")
        if len(runs) > 1:
            yield AnswerPart(f" in {escape_control_characters(run.name)}")
        lead = ", "
    yield AnswerPart(".")


_MAX_STEP_TIMES: Final = 2


def format_recorded_steps(run: RunComparison) -> str:
    """Format median and range of recorded steps if their mean is untypical, as in a server that
    waits for requests; empty otherwise, and if the CPU runs ahead of the GPU."""
    times = list_step_times(run.run)
    if run["recorded_step"].value is None or len(times) < _MIN_STEPS_FOR_PERCENTILES:
        return ""
    middle = median(times)
    if mean(times) <= _SKEWED_MEAN_RATIO * middle:
        return ""
    twentieths = quantiles(times, n=20)
    span = f"{format_ns(twentieths[0])} to {format_ns(twentieths[-1])}"
    return f"median step {format_ns(middle)}, 90% within {span}"


def format_statistic(run: RunComparison) -> str:
    """Format the statistic of a recorded step as a suffix of its time; empty otherwise."""
    if run.run.recording is None:
        return ""
    return f" (recorded {run.recorded_statistic})"


def _describe_graph_share(run: RunComparison) -> Iterator[AnswerPart]:
    """Show the share of GPU time in graphs and the remaining idle time."""
    graph_share = None if isinstance(run.coverage, Missing) else run.coverage.time_share
    idle = None if isinstance(run.time_by_category, Missing) else run.time_by_category.idle_fraction
    if not graph_share:
        return
    yield AnswerPart("record a run without graphs as baseline; ")
    # Further iterations of a While node are not in the trace.
    bound = "at least " if count_while_nodes(run.run) else ""
    yield AnswerPart(f"{bound}{format_percent(graph_share)} of the GPU time", Evidence.FIGURES)
    yield AnswerPart(" comes from graphs")
    if idle is not None and not format_recorded_steps(run):
        yield AnswerPart(", and the GPU is idle for ")
        yield AnswerPart(f"{format_percent(idle)} of the step", Evidence.TIME_BREAKDOWN)


def _build_failure_answer(run: RunComparison, base: RunComparison, step_ns: float) -> Answer:
    """Answer by the failure and the idle time that graphs could save."""
    failure = run.failures[0]
    location = f" at {failure.location}" if failure.location else ""
    verdict = (
        AnswerPart("Not in its current form: "),
        AnswerPart(
            escape_control_characters(
                f"{run.name} {get_failure_verb(failure)} {format_failed_stage(failure)}{location}"
            ),
            Evidence.FAILURES,
        ),
        AnswerPart("."),
    )
    because = (AnswerPart(escape_control_characters(format_cause(failure))),)
    return Answer(verdict, because, next_step=tuple(_describe_possible_gain(base, step_ns)))


def _describe_possible_gain(base: RunComparison, step_ns: float) -> Iterator[AnswerPart]:
    name = escape_control_characters(base.name)
    yield AnswerPart("fix the failure; ")
    yield AnswerPart(f"each step of {name} takes ")
    yield AnswerPart(format_ns(step_ns), Evidence.ITERATIONS)
    idle_ns = None if isinstance(base.time_by_category, Missing) else base.time_by_category.idle_ns
    if idle_ns:
        yield AnswerPart(", with an idle GPU for ")
        yield AnswerPart(
            f"{format_ns(idle_ns)} ({format_percent(idle_ns / step_ns)})", Evidence.TIME_BREAKDOWN
        )
    prediction = base.graph_prediction
    if not isinstance(prediction, Missing) and (gain := format_predicted_gain(prediction)):
        yield AnswerPart("; with CUDA graphs it is predicted to be ")
        yield AnswerPart(gain, Evidence.PREDICTED)


def _describe_outcome(run: RunComparison, step_ns: float, saving: float) -> Iterator[AnswerPart]:
    name, baseline = (
        escape_control_characters(run.name),
        escape_control_characters(run.baseline or ""),
    )
    if run.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE:
        yield AnswerPart(f"No significant difference between {name} and {baseline}: ")
        yield from _describe_equality(run, step_ns, saving)
        yield AnswerPart(".")
        return
    slower = run.outcome is Outcome.SLOWER
    ratio = format_ratio(1 / (run.speedup.value or 1.0)) if slower else run.speedup.text
    if run.outcome is Outcome.WRONG_RESULT:
        yield AnswerPart("Not in its current form: ")
        yield AnswerPart("replays compute a different result", Evidence.FAILURES)
        yield AnswerPart(f", though {name} is ")
    else:
        yield AnswerPart(f"{_choose_lead(run)}: {name} is ")
    figure = f"{ratio} {'slower' if slower else 'faster'}"
    yield AnswerPart(figure, Evidence.FIGURES, run.speedup.metric.id)
    yield AnswerPart(f" than {baseline}")
    if run.outcome is not Outcome.WRONG_RESULT:
        yield AnswerPart(", ")
        yield _format_times(step_ns, saving)
    yield AnswerPart(f"{format_statistic(run)}.")


def _choose_lead(run: RunComparison) -> str:
    slower = run.outcome is Outcome.SLOWER
    if run.is_other_program:
        return "Different workloads"
    if run.is_same_mode:
        return "Regression" if slower else "Improvement"
    return "No" if slower else _LEADS.get(run.outcome, "Marginal")


def _describe_equality(run: RunComparison, step_ns: float, saving: float) -> Iterator[AnswerPart]:
    """Name the limit of the gain, or the step times if there is none."""
    limit = None if run.is_other_program or run.is_same_mode else find_limit(run)
    if isinstance(limit, OutsideGraphs):
        yield AnswerPart(
            f"{format_percent(limit.work_share)} of the work runs outside graphs",
            Evidence.COVERAGE,
        )
        if source := _name_outside_work(limit):
            yield AnswerPart(f", mostly {source}")
    elif isinstance(limit, BusyGpu):
        yield AnswerPart("the GPU is already ")
        yield AnswerPart(f"busy {format_percent(limit.busy_share)}", Evidence.TIME_BREAKDOWN)
        yield AnswerPart(" of the step")
    else:
        yield _format_times(step_ns, saving)
        yield AnswerPart(format_statistic(run))


def _name_outside_work(limit: OutsideGraphs) -> str:
    if limit.reason in _REPLAY_WORK:
        return _REPLAY_WORK[limit.reason]
    return shorten_name(escape_control_characters(limit.operator)) if limit.operator else ""


_REPLAY_WORK: Final = {
    Reason.INPUT: "copies into static inputs",
    Reason.GENERATOR: "updates of the random generator",
}
"""Work outside graphs that only serves their replays."""


def _format_times(step_ns: float, saving: float) -> AnswerPart:
    times = f"{format_ns(step_ns)} instead of {format_ns(step_ns + saving)} per step"
    return AnswerPart(times, Evidence.ITERATIONS)


def _find_cause(run: RunComparison) -> MainCause | None:
    saving = run.saving.value
    if (
        saving is None
        or run.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE
        or isinstance(run.waterfall, Missing)
    ):
        return None
    return find_main_cause(run.waterfall, saving)


def _describe_cause(run: RunComparison, saving: float) -> Iterator[AnswerPart]:
    """Name the largest part with the same sign as the total difference."""
    if run.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE:
        spread = run.speedup.spread
        if spread is not None and spread.high is not None:
            yield AnswerPart("the difference of ")
            yield AnswerPart(format_ns(abs(saving)), Evidence.ITERATIONS)
            yield AnswerPart(" is within noise: speedup ")
            interval = f"{format_ratio(spread.low)} to {format_ratio(spread.high)}"
            yield AnswerPart(interval, Evidence.FIGURES, run.speedup.metric.id)
            yield AnswerPart(", 95% interval", Evidence.FIGURES, run.speedup.metric.id)
        else:
            yield AnswerPart("the difference of ")
            yield AnswerPart(format_ns(abs(saving)), Evidence.ITERATIONS)
            yield AnswerPart(" has no interval, so it may be noise")
        return
    main = _find_cause(run)
    if main is None:
        return
    text = _format_cause(main)
    if main.ns is not None:
        text = f"{format_ns(main.ns)} {text}"
    yield AnswerPart(text, Evidence.WATERFALL)
    if main.share is not None:
        basis_note = " under the profiler" if main.basis is Basis.TRACED else ""
        yield AnswerPart(", ")
        yield AnswerPart(format_percent(main.share), Evidence.WATERFALL)
        yield AnswerPart(f" of the difference{basis_note}")
    elif main.offset is not None:
        noun = CAUSE_NOUNS[main.offset]
        change = "less" if main.is_saving == (main.offset is Cause.OVERLAP) else "more"
        yield AnswerPart(f", partly offset by {change} {noun}")


def _format_cause(main: MainCause) -> str:
    # More overlap saves time, less overlap costs time.
    verb = "less" if main.is_saving != (main.cause is Cause.OVERLAP) else "more"
    return f"{verb} {CAUSE_NOUNS[main.cause]}"


def _describe_costs(run: RunComparison) -> Iterator[AnswerPart]:
    if run.is_other_program:
        return
    cost, payback = run["one_off_cost"], run.payback
    separator = ""
    if not run.is_same_mode:
        if cost.value is not None:
            yield AnswerPart(cost.text, Evidence.BREAK_EVEN)
            yield AnswerPart(" once")
            separator = "; "
            if run.outcome is not Outcome.WRONG_RESULT and run["break_even"].value is None:
                yield AnswerPart(", never paid back")
            elif payback is not None and payback.value is not None:
                yield AnswerPart(", paid back after ")
                yield AnswerPart(pluralize(round(payback.value), "replay"), Evidence.BREAK_EVEN)
        elif cost.missing is not None and cost.missing.fact is Fact.COMPILE_TIME:
            yield AnswerPart("compilation, not timed")
            separator = "; "
    for change in list_memory_changes(run):
        yield AnswerPart(f"{separator}{change.label.lower()} ")
        yield AnswerPart(change.text, Evidence.FIGURES, change.metric)
        separator = ", "


def _describe_next_step(run: RunComparison) -> Iterator[AnswerPart]:
    name = escape_control_characters(run.name)
    if run.outcome is Outcome.WRONG_RESULT:
        yield AnswerPart("fix what ")
        yield AnswerPart("Doctor", page="doctor")
        yield AnswerPart(" found")
    elif run.is_other_program:
        yield AnswerPart("compare runs of the same workload")
    elif run.is_same_mode:
        yield AnswerPart("see what changed in ")
        yield AnswerPart("Timeline", page="timeline")
    else:
        yield from _describe_limit_step(run, name)


_PAIR: Final = 2


def _describe_dates(baseline: Run, run: Run) -> Parts:
    """Show when both runs were recorded, if on different days or in one mode. Empty if neither is
    known."""
    day = run.manifest.recording_day
    if day is None or baseline.manifest.recording_day != day:
        return _describe_days(baseline, run)
    if not has_same_mode(run, baseline):
        return ()
    return (AnswerPart(_join_dates(baseline, run, _MINUTE)), AnswerPart(" UTC"))


def _describe_days(baseline: Run, run: Run) -> Parts:
    """Show the days of both runs. Empty if they are equal or unknown."""
    if baseline.manifest.recording_day == run.manifest.recording_day:
        return ()
    return (AnswerPart(_join_dates(baseline, run, _DAY)),)


_DAY, _MINUTE = len("2026-11-23"), len("2026-11-23T14:22")


def _join_dates(baseline: Run, run: Run, length: int) -> str:
    sides = [(side.name, side.manifest.recording_time) for side in (baseline, run)]
    return ", ".join(
        f"{escape_control_characters(name)} "
        + (time[:length].replace("T", " ") if time else "on an unknown date")
        for name, time in sides
    )


def _describe_limit_step(run: RunComparison, name: str) -> Iterator[AnswerPart]:
    limit = find_limit(run)
    if isinstance(limit, OutsideGraphs):
        avoidable = limit.reason in _REPLAY_WORK
        yield AnswerPart("avoid " if avoidable else "capture ")
        yield AnswerPart(_name_outside_work(limit) or "the rest", Evidence.COVERAGE)
        suffix = "" if avoidable else " too"
        yield AnswerPart(f"{suffix}; ")
        yield AnswerPart(format_percent(limit.work_share), Evidence.COVERAGE)
        yield AnswerPart(" of the work is outside graphs")
        return
    if isinstance(limit, BusyGpu):
        yield AnswerPart("optimize ")
        yield AnswerPart("the kernels", Evidence.KERNELS)
        yield AnswerPart(": the GPU is busy ")
        yield AnswerPart(f"{format_percent(limit.busy_share)} of the step", Evidence.TIME_BREAKDOWN)
        return
    breakdown = run.time_by_category
    idle = None if isinstance(breakdown, Missing) else breakdown.idle_fraction
    if idle is not None and idle >= _NOTABLE_IDLE_SHARE and not run.mode.captures_graphs:
        yield AnswerPart("capture graphs too; the GPU is idle for ")
        yield AnswerPart(f"{format_percent(idle)} of the step", Evidence.TIME_BREAKDOWN)
    elif idle is not None and idle >= _NOTABLE_IDLE_SHARE:
        yield AnswerPart("find the remaining ")
        yield AnswerPart(f"{format_percent(idle)} of idle time", Evidence.TIME_BREAKDOWN)
        yield AnswerPart(f" of {name} in ")
        yield AnswerPart("Timeline", page="timeline")
    elif run.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE:
        spread = run.speedup.spread
        if run.run.recording is not None:
            yield AnswerPart("record more steps")
        else:
            yield AnswerPart("collect more than ")
            processes = spread.processes if spread else 0
            yield AnswerPart(f"{format_count(processes)} processes", Evidence.ITERATIONS)
        yield AnswerPart(" to narrow it")
    else:
        yield AnswerPart("see the largest changes in ")
        yield AnswerPart("Timeline", page="timeline")
