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
from graphviz_dash.analysis.failures import when
from graphviz_dash.analysis.metrics.low_confidence import OtherWorkload
from graphviz_dash.analysis.prediction.predict import Recommendation
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Cause
from graphviz_dash.errors import printable
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.prediction import (
    blocker_text,
    predicted_gain,
    prediction_verdict,
    verdict_figure,
)
from graphviz_dash.units import (
    counted,
    format_bytes,
    format_ns,
    format_percent,
    format_ratio,
)

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
    from graphviz_dash.analysis.prediction.predict import Prediction

_IN_ITS_LOOP: Final = (
    " Step times come from a recording of the program's loop, not from a clean pass."
)

_CAUSES: Final = {
    Cause.GAPS: "launch overhead",
    Cause.KERNELS: "kernel time",
    Cause.COPIES: "memcpy and memset time",
    Cause.OVERLAP: "overlap on the GPU",
    Cause.SYNCHRONISATION: "synchronisation",
    Cause.RANKS: "waiting for other ranks",
}
"""Noun for each part of the equation, if it is the largest."""


_TOO_SMALL: Final = 0.01
"""Share of the baseline's traced step below which a part explains nothing."""
_UNEVEN: Final = 2.0
"""Ratio of mean to median step time from which the mean is not typical."""
_EVEN_FROM: Final = 20
"""Minimum number of steps for 5th and 95th percentiles."""

_LEADS: Final = {Outcome.FASTER: "Yes", Outcome.MODESTLY_FASTER: "Modest gain"}
"""First words of the answer if the run is more than slightly faster."""


class Evidence(StrEnum):
    """Evidence of a figure in the answer; values are anchors of the Compare page."""

    ITERATIONS = "iterations"
    WATERFALL = "waterfall"
    BREAK_EVEN = "break-even"
    FIGURES = "figures"
    WHERE = "where-the-time-goes"
    FAILURES = "failures"
    PREDICTED = "predicted"


class Piece(Struct, frozen=True):
    """Part of the answer. ``evidence`` is set if it holds a figure, ``metric`` if the registry has
    it."""

    text: str
    evidence: Evidence | None = None
    metric: str | None = None


def answer_text(pieces: tuple[Piece, ...]) -> str:
    """Return the answer as plain text."""
    return "".join(piece.text for piece in pieces)


def answer(comparison: Comparison) -> tuple[Piece, ...]:
    """Answer whether graphs pay off, using the fastest run. Without a compared run, describe the
    obstacle or the prediction for an eager run. Empty if the baseline itself failed."""
    if comparison.best is not None:
        return run_answer(comparison.best)
    base = comparison[comparison.baseline] if comparison.baseline else None
    failed = next((run for run in comparison.runs if run.failures and run is not base), None)
    if failed is None and not any(run.failures for run in comparison.runs):
        base_run = comparison.predicted
        if base_run is None or isinstance(base_run.outlook, Missing):
            return tuple(_not_compared(comparison.runs))
        return tuple(_predicted(base_run, base_run.outlook))
    if failed is None or base is None or base.step.value is None:
        return ()
    return tuple(_failed(failed, base, base.step.value))


def _predicted(run: RunComparison, prediction: Prediction) -> Iterator[Piece]:
    """Describe the prediction for ``run``, its first blocker and the idle time of its step."""
    verdict = printable(prediction_verdict(prediction))
    before, figure, after = verdict.partition(verdict_figure(prediction))
    yield Piece(before)
    yield Piece(figure, Evidence.PREDICTED)
    yield Piece(after)
    blockers = [blocker for blocker in prediction.blockers if blocker.certain]
    if prediction.recommendation is Recommendation.BLOCKED:
        yield Piece(" Blocked by: ")
        yield Piece(printable(blocker_text(blockers[0])), Evidence.PREDICTED)
        yield Piece(f", and {len(blockers) - 1} more." if len(blockers) > 1 else ".")
    idle = prediction.idle_ns / prediction.eager_ns if prediction.eager_ns else 0.0
    yield Piece(" The GPU is idle for ")
    evidence = Evidence.FIGURES if isinstance(run.where, Missing) else Evidence.WHERE
    period = "time" if prediction.recommendation is Recommendation.NO_STEPS else "step"
    yield Piece(f"{format_percent(idle)} of that {period}", evidence)
    yield Piece(f". Predicted from the trace of {printable(run.name)}; no graph was measured.")


def run_answer(run: RunComparison) -> tuple[Piece, ...]:
    """Answer for ``run`` against its baseline; empty if it was not compared."""
    step_ns, saving = run.step.value, run.saving.value
    if run.speedup.value is None or step_ns is None or saving is None:
        return ()
    pieces = (
        *_outcome(run, step_ns, saving),
        *_cause(run, saving),
        *_cost(run),
        Piece("."),
    )
    return (*pieces, Piece(_IN_ITS_LOOP)) if run.run.recording else pieces


def _not_compared(runs: Sequence[RunComparison]) -> Iterator[Piece]:
    """Explain why nothing was compared, with the step time of each run. Profiled times appear only
    if no run has others, and are labelled."""
    if not runs:
        return
    timed = [run for run in runs if run.step.value is not None]
    traced = [run for run in runs if run["traced_step_time"].value is not None]
    if len(runs) == 1:
        reason = "this experiment has one run"
        if isinstance(runs[0].outlook, Missing) and not runs[0].run.graphs:
            reason += f", and a graph cannot be predicted from it: {runs[0].outlook.reason}"
    elif not timed:
        reason = "no run has clean timings"
    else:
        reasons = (run.speedup.missing for run in runs if not run.is_baseline)
        reason = next((missing.reason for missing in reasons if missing is not None), "")
    lead = "No baseline" if len(runs) == 1 else "Not available"
    yield Piece(f"{lead}: {printable(reason)}.")
    lead = " Step time: " if timed else " Step time under the profiler: "
    for run in timed or traced:
        figure = run.step if timed else run["traced_step_time"]
        evidence = Evidence.ITERATIONS if timed else Evidence.FIGURES
        yield Piece(lead)
        yield Piece(figure.text, evidence, None if timed else figure.metric.id)
        if timed:
            yield from _uneven(run)
        if len(runs) > 1:
            yield Piece(f" in {printable(run.name)}")
        lead = ", "
    if timed or traced:
        yield Piece(".")
    if len(runs) == 1:
        yield from _replayed(runs[0])


def _uneven(run: RunComparison) -> Iterator[Piece]:
    """Show the spread of recorded steps if their mean is far above the median, as in a server that
    waits for requests."""
    recording, mean = run.run.recording, run.step.value
    if recording is None or mean is None or len(recording.step_ns) < _EVEN_FROM:
        return
    if mean > _UNEVEN * median(recording.step_ns):
        twentieths = quantiles(recording.step_ns, n=20)
        span = f"{format_ns(twentieths[0])} to {format_ns(twentieths[-1])}"
        yield Piece(f" on average, single steps {span} on the CPU")


def _replayed(run: RunComparison) -> Iterator[Piece]:
    """Show the share of GPU time in graphs and the idle time that remains, for a run without a
    baseline."""
    graphed = None if isinstance(run.coverage, Missing) else run.coverage.time_share
    idle = None if isinstance(run.where, Missing) else run.where.idle_fraction
    if not graphed:
        return
    yield Piece(" ")
    yield Piece(f"{format_percent(graphed)} of its GPU time", Evidence.FIGURES)
    yield Piece(" comes from graphs")
    if idle is not None:
        yield Piece("; the GPU is idle in ")
        yield Piece(f"{format_percent(idle)} of the step", Evidence.WHERE)
    yield Piece(".")


def _failed(run: RunComparison, base: RunComparison, step_ns: float) -> Iterator[Piece]:
    """Describe the failure of ``run`` and the idle time of a baseline step that graphs could
    save."""
    failure = run.failures[0]
    location = f" at {failure.location}" if failure.location else ""
    yield Piece("Not in its current form: ")
    yield Piece(printable(f"{run.name} failed {when(failure)}{location}"), Evidence.FAILURES)
    yield Piece(f". Each step of {printable(base.name)} takes ")
    yield Piece(format_ns(step_ns), Evidence.ITERATIONS)
    idle_ns = None if isinstance(base.where, Missing) else base.where.idle_ns
    if idle_ns:
        idle = f"{format_ns(idle_ns)} ({format_percent(idle_ns / step_ns)})"
        yield Piece("; the GPU is idle for ")
        yield Piece(idle, Evidence.WHERE)
        yield Piece(", the time that graphs could save")
    yield Piece(".")
    if not isinstance(base.outlook, Missing) and predicted_gain(base.outlook):
        yield Piece(" With CUDA graphs it is predicted to be ")
        yield Piece(predicted_gain(base.outlook), Evidence.PREDICTED)
        yield Piece(".")


def _outcome(run: RunComparison, step_ns: float, saving: float) -> Iterator[Piece]:
    name, baseline = printable(run.name), printable(run.baseline or "")
    speedup = run.speedup
    times = Piece(
        f"{format_ns(step_ns)} instead of {format_ns(step_ns + saving)} per step",
        Evidence.ITERATIONS,
    )
    if run.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE:
        yield Piece(f"No significant difference between {name} and {baseline}: ")
        yield times
        yield Piece(" (")
        spread = speedup.spread
        low, high = (format_ratio(end) for end in (spread.low, spread.high)) if spread else ("", "")
        interval = f"95% interval of the speedup {low} to {high}"
        yield Piece(interval, Evidence.FIGURES, speedup.metric.id)
        yield Piece(")")
        return
    slower = run.outcome is Outcome.SLOWER
    ratio = format_ratio(1 / (speedup.value or 1.0)) if slower else speedup.text
    figure = f"{ratio} {'slower' if slower else 'faster'}"
    if _is_of_other_work(run):
        yield Piece(f"Different workloads: {name} is ")
        yield Piece(figure, Evidence.FIGURES, speedup.metric.id)
        yield Piece(f" than {baseline}, ")
        yield times
        return
    if slower:
        yield Piece(f"No: {name} is ")
    elif run.outcome is Outcome.WRONG_RESULT:
        yield Piece("Not in its current form: ")
        yield Piece("replays compute a different result", Evidence.FAILURES)
        yield Piece(f". As timed, {name} is ")
    else:
        lead = _LEADS.get(run.outcome, "Marginal")
        yield Piece(f"{lead}: {name} is ")
    yield Piece(figure, Evidence.FIGURES, speedup.metric.id)
    yield Piece(f" than {baseline}, ")
    yield times


def _is_of_other_work(run: RunComparison) -> bool:
    """Return whether the run and its baseline run different programs."""
    caveats = (caveat for caveat in run.low_confidence if isinstance(caveat, OtherWorkload))
    return any(caveat.own.factory != caveat.other.factory for caveat in caveats)


def _cause(run: RunComparison, saving: float) -> Iterator[Piece]:
    """Name the largest part with the same sign as the total difference."""
    sign = 1 if saving >= 0 else -1
    if isinstance(run.waterfall, Missing):
        return
    parts = run.waterfall.causes
    signed = [(sign * value, cause) for cause, value in parts if cause in _CAUSES]
    largest, cause = max(signed, default=(0, Cause.REMAINDER), key=itemgetter(0))
    if largest <= 0 or not saving:
        return
    noun = _CAUSES[cause]
    share = format_percent(min(1.0, largest / abs(saving)))
    # More overlap saves time, less overlap costs time.
    verb = "less" if (sign > 0) != (cause is Cause.OVERLAP) else "more"
    if run.waterfall.basis is Basis.TRACED:
        if largest < _TOO_SMALL * run.waterfall.before_ns:
            return
        yield Piece("; under the profiler ")
        yield Piece(f"{format_ns(largest)} {verb} {noun}", Evidence.WATERFALL)
        return
    yield Piece("; ")
    suffix = f" ({share} of the difference)" if largest <= abs(saving) else ""
    yield Piece(f"{format_ns(largest)} {verb} {noun}{suffix}", Evidence.WATERFALL)


def _cost(run: RunComparison) -> Iterator[Piece]:
    cost, replays = run["one_off_cost"], run["break_even"].value
    memory = run["peak_reserved_change"].value
    if cost.value is not None:
        yield Piece(". One-time cost: ")
        yield Piece(f"{cost.text}", Evidence.BREAK_EVEN)
        # A replay of one workload does not pay back the cost of another.
        pays = run.outcome is not Outcome.WRONG_RESULT and not _is_of_other_work(run)
        if pays and replays is None:
            yield Piece(", never paid back")
        elif pays and replays and run.outcome is not Outcome.NO_SIGNIFICANT_DIFFERENCE:
            yield Piece(", paid back after ")
            yield Piece(counted(round(replays), "step"), Evidence.BREAK_EVEN)
    elif cost.missing is not None and cost.missing.fact is Fact.COMPILE_TIME:
        yield Piece(". The one-time cost of compilation was not timed")
    if memory is not None:
        yield Piece(", with " if cost.value is not None else "; ")
        yield Piece(_memory(memory), Evidence.FIGURES, "peak_reserved_change")


def _memory(change: float) -> str:
    if not change:
        return "unchanged peak memory"
    return f"{format_bytes(abs(change))} {'more' if change > 0 else 'less'} peak memory"
