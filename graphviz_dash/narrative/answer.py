"""Whether a run is worth it, in words for somebody who decides: what is gained, why, and what it
costs. Each figure names the evidence that it rests on.
"""

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
    " These are steps of the program's own loop as it ran once, not clean timings."
)

_CAUSES: Final = {
    Cause.GAPS: "waiting for launches",
    Cause.KERNELS: "kernel time",
    Cause.COPIES: "memcpy and memset",
    Cause.OVERLAP: "overlap of work on the GPU",
    Cause.SYNCHRONISATION: "synchronisation",
    Cause.RANKS: "waiting for other ranks",
}
"""Parts of the equation, and what each is called where it is the largest."""


_TOO_SMALL: Final = 0.01
"""Share of the baseline's traced step below which a part explains nothing."""
_UNEVEN: Final = 2.0
"""A mean step of so many medians is no typical one."""
_EVEN_FROM: Final = 20
"""Steps of which a twentieth can be told."""

_LEADS: Final = {Outcome.FASTER: "Yes", Outcome.MODESTLY_FASTER: "A little"}
"""How an answer begins where the run is faster by more than a slight speedup."""


class Evidence(StrEnum):
    """What a figure of the answer rests on; the values are anchors of the Compare page."""

    ITERATIONS = "iterations"
    WATERFALL = "waterfall"
    BREAK_EVEN = "break-even"
    FIGURES = "figures"
    WHERE = "where-the-time-goes"
    FAILURES = "failures"
    PREDICTED = "predicted"


class Piece(Struct, frozen=True):
    """A stretch of the sentence; ``evidence`` for one that holds a figure, and ``metric`` where
    that is one of the registry, which the figures show by itself."""

    text: str
    evidence: Evidence | None = None
    metric: str | None = None


def answer_text(pieces: tuple[Piece, ...]) -> str:
    """The answer as plain text."""
    return "".join(piece.text for piece in pieces)


def answer(comparison: Comparison) -> tuple[Piece, ...]:
    """Whether graphs are worth it: the answer of the fastest run; where none was compared, what
    stands in the way, or what the trace of an eager run predicts; empty where that is the failure
    of the baseline itself."""
    if comparison.best is not None:
        return run_answer(comparison.best)
    base = comparison[comparison.baseline] if comparison.baseline else None
    failed = next((run for run in comparison.runs if run.failures and run is not base), None)
    if failed is None and not any(run.failures for run in comparison.runs):
        predicted = comparison.predicted
        if predicted is None or isinstance(predicted.outlook, Missing):
            return tuple(_not_compared(comparison.runs))
        return tuple(_predicted(predicted, predicted.outlook))
    if failed is None or base is None or base.step.value is None:
        return ()
    return tuple(_failed(failed, base, base.step.value))


def _predicted(run: RunComparison, prediction: Prediction) -> Iterator[Piece]:
    """What the trace of ``run`` says of a graph of its step, what stops it first, and where the
    time of the step goes."""
    verdict = printable(prediction_verdict(prediction))
    before, figure, after = verdict.partition(verdict_figure(prediction))
    yield Piece(before)
    yield Piece(figure, Evidence.PREDICTED)
    yield Piece(after)
    stops = [blocker for blocker in prediction.blockers if blocker.certain]
    if prediction.recommendation is Recommendation.BLOCKED:
        yield Piece(" What stops it: ")
        yield Piece(printable(blocker_text(stops[0])), Evidence.PREDICTED)
        yield Piece(f", and {len(stops) - 1} more." if len(stops) > 1 else ".")
    idle = prediction.idle_ns / prediction.eager_ns if prediction.eager_ns else 0.0
    yield Piece(" The GPU is idle in ")
    evidence = Evidence.FIGURES if isinstance(run.where, Missing) else Evidence.WHERE
    what = "time" if prediction.recommendation is Recommendation.NO_STEPS else "step"
    yield Piece(f"{format_percent(idle)} of that {what}", evidence)
    yield Piece(f". Predicted from the trace of {printable(run.name)}; no graph was measured.")


def run_answer(run: RunComparison) -> tuple[Piece, ...]:
    """The answer for ``run`` against its baseline; empty where it was not compared."""
    own, saving = run.step.value, run.saving.value
    if run.speedup.value is None or own is None or saving is None:
        return ()
    pieces = (
        *_outcome(run, own, saving),
        *_cause(run, saving),
        *_cost(run),
        Piece("."),
    )
    return (*pieces, Piece(_IN_ITS_LOOP)) if run.run.recording else pieces


def _not_compared(runs: Sequence[RunComparison]) -> Iterator[Piece]:
    """Why nothing was compared, and what a step takes in each run. Times under a profiler are shown
    only where no run has others, and called so."""
    if not runs:
        return
    timed = [run for run in runs if run.step.value is not None]
    traced = [run for run in runs if run["traced_step_time"].value is not None]
    if len(runs) == 1:
        why = "this experiment has one run"
        if isinstance(runs[0].outlook, Missing) and not runs[0].run.graphs:
            why += f", and a graph cannot be predicted from it: {runs[0].outlook.reason}"
    elif not timed:
        why = "no run has clean timings"
    else:
        reasons = (run.speedup.missing for run in runs if not run.is_baseline)
        why = next((missing.reason for missing in reasons if missing is not None), "")
    lead = "No baseline" if len(runs) == 1 else "Not available"
    yield Piece(f"{lead}: {printable(why)}.")
    lead = " A step takes " if timed else " Under the profiler a step takes "
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
    """That the step of a recorded program is a mean of very different ones, where it is: a server
    that waits for requests in some steps takes many times the median."""
    recording, mean = run.run.recording, run.step.value
    if recording is None or mean is None or len(recording.step_ns) < _EVEN_FROM:
        return
    if mean > _UNEVEN * median(recording.step_ns):
        twentieths = quantiles(recording.step_ns, n=20)
        span = f"{format_ns(twentieths[0])} to {format_ns(twentieths[-1])}"
        yield Piece(f" on average, single ones {span} on the CPU")


def _replayed(run: RunComparison) -> Iterator[Piece]:
    """How much of the work of a ``run`` without a baseline comes from graphs, and for how much of
    its steps the GPU idles in spite of them."""
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
    """What stands in the way where ``run`` failed and nothing was compared, and what there is to
    gain: idle time of the GPU in a step of the baseline ``base``."""
    failure = run.failures[0]
    where = f" at {failure.location}" if failure.location else ""
    yield Piece("Not as it stands: ")
    yield Piece(printable(f"{run.name} failed {when(failure)}{where}"), Evidence.FAILURES)
    yield Piece(f". A step of {printable(base.name)} takes ")
    yield Piece(format_ns(step_ns), Evidence.ITERATIONS)
    idle_ns = None if isinstance(base.where, Missing) else base.where.idle_ns
    if idle_ns:
        idle = f"{format_ns(idle_ns)} ({format_percent(idle_ns / step_ns)})"
        yield Piece(", in which the GPU is idle for ")
        yield Piece(idle, Evidence.WHERE)
        yield Piece(", which is what graphs could save")
    yield Piece(".")
    if not isinstance(base.outlook, Missing) and predicted_gain(base.outlook):
        yield Piece(" As one graph it is predicted to be ")
        yield Piece(predicted_gain(base.outlook), Evidence.PREDICTED)
        yield Piece(".")


def _outcome(run: RunComparison, own: float, saving: float) -> Iterator[Piece]:
    name, baseline = printable(run.name), printable(run.baseline or "")
    speedup = run.speedup
    times = Piece(f"{format_ns(own)} instead of {format_ns(own + saving)}", Evidence.ITERATIONS)
    if run.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE:
        yield Piece(f"No significant difference between {name} and {baseline}: a step takes ")
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
        yield Piece(f"The two are of different work: a step of {name} is ")
        yield Piece(figure, Evidence.FIGURES, speedup.metric.id)
        yield Piece(f" than one of {baseline}, ")
        yield times
        return
    if slower:
        yield Piece(f"No: {name} makes a step ")
    elif run.outcome is Outcome.WRONG_RESULT:
        yield Piece("Not as it stands: ")
        yield Piece("replays do other work than the step", Evidence.FAILURES)
        yield Piece(f". As it was timed, {name} makes a step ")
    else:
        lead = _LEADS.get(run.outcome, "Hardly")
        yield Piece(f"{lead}: {name} makes a step ")
    yield Piece(figure, Evidence.FIGURES, speedup.metric.id)
    yield Piece(f" than {baseline}, ")
    yield times


def _is_of_other_work(run: RunComparison) -> bool:
    """Whether it and its baseline run other programs, so that their steps are no two ways to do one
    thing."""
    doubts = (doubt for doubt in run.low_confidence if isinstance(doubt, OtherWorkload))
    return any(doubt.own.factory != doubt.other.factory for doubt in doubts)


def _cause(run: RunComparison, saving: float) -> Iterator[Piece]:
    """The largest part that goes with the direction of the whole."""
    sign = 1 if saving >= 0 else -1
    if isinstance(run.waterfall, Missing):
        return
    parts = run.waterfall.causes
    signed = [(sign * value, cause) for cause, value in parts if cause in _CAUSES]
    largest, cause = max(signed, default=(0, Cause.REMAINDER), key=itemgetter(0))
    if largest <= 0 or not saving:
        return
    words = _CAUSES[cause]
    share = format_percent(min(1.0, largest / abs(saving)))
    # More overlap saves time, and less of it costs some.
    verb = "less" if (sign > 0) != (cause is Cause.OVERLAP) else "more"
    if run.waterfall.basis is Basis.TRACED:
        if largest < _TOO_SMALL * run.waterfall.before_ns:
            return
        yield Piece("; under the profiler ")
        yield Piece(f"{format_ns(largest)} {verb} {words}", Evidence.WATERFALL)
        return
    yield Piece("; ")
    of = f" ({share} of the difference)" if largest <= abs(saving) else ""
    yield Piece(f"{format_ns(largest)} {verb} {words}{of}", Evidence.WATERFALL)


def _cost(run: RunComparison) -> Iterator[Piece]:
    cost, replays = run["one_off_cost"], run["break_even"].value
    memory = run["peak_reserved_change"].value
    if cost.value is not None:
        yield Piece(". It costs ")
        yield Piece(f"{cost.text} once", Evidence.BREAK_EVEN)
        # A replay of one work saves nothing of another.
        pays = run.outcome is not Outcome.WRONG_RESULT and not _is_of_other_work(run)
        if pays and replays is None:
            yield Piece(", never paid back")
        elif pays and replays and run.outcome is not Outcome.NO_SIGNIFICANT_DIFFERENCE:
            yield Piece(", paid back after ")
            yield Piece(counted(round(replays), "step"), Evidence.BREAK_EVEN)
    elif cost.missing is not None and cost.missing.fact is Fact.COMPILE_TIME:
        yield Piece(". What the compilation costs once was not timed")
    if memory is not None:
        yield Piece(", and " if cost.value is not None else "; ")
        yield Piece(_memory(memory), Evidence.FIGURES, "peak_reserved_change")


def _memory(change: float) -> str:
    if not change:
        return "no more memory"
    return f"{format_bytes(abs(change))} {'more' if change > 0 else 'less'} memory at its peak"
