"""Prediction in words: the verdict, its breakdown, caveats and the later measurement."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.metrics.thresholds import MODEST_SPEEDUP
from graphviz_dash.analysis.prediction.capture_blockers import (
    Blocker,
    Evidence,
    ForbiddenCalls,
    OptimizerRead,
    StepDifference,
)
from graphviz_dash.analysis.prediction.eager_step import EagerStep
from graphviz_dash.analysis.prediction.idle_time import IdleCause, IdleTime
from graphviz_dash.analysis.prediction.predict import (
    CAPTURE,
    EagerSide,
    NotChecked,
    Prediction,
    PredictionWarning,
    Recommendation,
)
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.prediction.uncertainty import OTHER_GPU_FACTOR, Estimate
from graphviz_dash.analysis.trace.integrity import TraceIntegrity
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio, pluralize

_MAX_CAUSE_LENGTH: Final = 80
"""Maximum characters of an idle cause; keeps the end of paths."""
_MAX_NAME_LENGTH: Final = 60


_NOTABLE_IDLE_SHARE: Final = 0.05
"""Share of the eager step from which idle time is mentioned."""


def format_prediction_verdict(prediction: Prediction) -> str:
    """Format the prediction in one sentence, plus one on the remaining idle time if it is large."""
    remaining_idle = describe_remaining_idle(prediction)
    return (
        f"{_format_verdict(prediction)} {remaining_idle}"
        if remaining_idle
        else _format_verdict(prediction)
    )


def format_short_verdict(prediction: Prediction) -> str:
    """Format the prediction in at most 20 words, without intervals and causes."""
    if isinstance(prediction.speedup, Missing):
        return (
            "No verdict per step: the trace marks no steps. Graphs could remove "
            f"{format_verdict_figure(prediction)} of idle time."
        )
    if prediction.recommendation is Recommendation.NO:
        return f"No: with CUDA graphs the step is predicted to take {_format_times(prediction)}."
    lead = "Marginal"
    if prediction.recommendation is not Recommendation.MARGINAL:
        lead = _choose_lead(prediction.speedup)
    if prediction.recommendation is Recommendation.BLOCKED:
        count = sum(blocker.certain for blocker in prediction.blockers)
        lead += f", after {'one fix' if count == 1 else f'{count} fixes'}"
    gain = format_ratio(prediction.speedup.value)
    return (
        f"{lead}: with CUDA graphs a step is predicted {gain} faster, {_format_times(prediction)}."
    )


def format_short_verdict_figure(prediction: Prediction) -> str:
    """Figure of the short verdict."""
    if isinstance(prediction.speedup, Missing) or prediction.recommendation is Recommendation.NO:
        return format_verdict_figure(prediction)
    return f"{format_ratio(prediction.speedup.value)} faster"


def _choose_lead(speedup: Estimate) -> str:
    return "Yes" if speedup.value >= MODEST_SPEEDUP else "Modest gain"


def _format_verdict(prediction: Prediction) -> str:
    times = _format_times(prediction)
    side = "" if prediction.eager_side is EagerSide.CLEAN else f" ({prediction.eager_side.value})"
    if isinstance(prediction.speedup, Missing):
        return (
            f"No verdict per step: the trace marks no steps. In total: "
            f"{_format_work(prediction)}; the GPU is busy for "
            f"{format_ns(prediction.step.busy_ns)} of "
            f"{format_ns(round(prediction.eager_ns))}"
            + (
                "."
                if any(part.cause is IdleCause.UNKNOWN for part in prediction.idle.parts)
                else f" and idle for {format_verdict_figure(prediction)} while the CPU launches."
            )
        )
    interval = _format_speedup_interval(prediction.speedup)
    gain = f"{format_ratio(prediction.speedup.value)} faster{interval}, {times}{side} per step"
    match prediction.recommendation:
        case Recommendation.YES:
            return f"{_choose_lead(prediction.speedup)}: with CUDA graphs the step would be {gain}."
        case Recommendation.BLOCKED:
            count = sum(blocker.certain for blocker in prediction.blockers)
            count_text = "one place blocks" if count == 1 else f"{count} places block"
            them = "it" if count == 1 else "them"
            lead = _choose_lead(prediction.speedup)
            return (
                f"{lead}, but {count_text} capture; after fixing {them}, the step would be {gain}."
            )
        case Recommendation.MARGINAL:
            return f"Marginal: with CUDA graphs the step would be {gain}."
    return f"No: with CUDA graphs the step would take {times}{side}."


def format_verdict_figure(prediction: Prediction) -> str:
    """Figure of the verdict: the gain; the step times without a gain; the idle time due to launches
    without marked steps."""
    if isinstance(prediction.speedup, Missing):
        return format_ns(round(prediction.idle_ns - prediction.remaining_idle_ns))
    if prediction.recommendation is Recommendation.NO:
        return _format_times(prediction)
    return format_predicted_gain(prediction)


def _format_times(prediction: Prediction) -> str:
    graphed, eager = round(prediction.graphed.value), round(prediction.eager_ns)
    return f"{format_ns(graphed)} instead of {format_ns(eager)}"


def _format_speedup_interval(speedup: Estimate) -> str:
    if speedup.low is None:
        return ""
    return f" ({format_ratio(speedup.low)} to {format_ratio(speedup.high)})"


_IDLE_ACTIVITIES: Final = {
    IdleCause.LAUNCHING: "while the CPU launches",
    IdleCause.DATA: "waiting for data",
    IdleCause.WAITING: "during copies and synchronisation",
    IdleCause.LOADING: "during allocations and code loading, which are rare in warm steps",
    IdleCause.PROFILER: "during profiler work",
    IdleCause.GRAPH: "between the nodes of graph launches",
    IdleCause.UNKNOWN: "with unknown CPU activity",
    IdleCause.OTHER: "during other CPU work",
}


def describe_remaining_idle(prediction: Prediction) -> str:
    """Describe the largest part of the idle time that remains with a graph, and its cause."""
    if prediction.remaining_idle_ns < _NOTABLE_IDLE_SHARE * prediction.eager_ns:
        return ""
    part = prediction.idle.remaining[0]
    if part.cause is IdleCause.UNKNOWN:
        return f"The causes of the idle time are unknown because {_NO_CPU_EVENTS}."
    ns = prediction.idle_ns * part.ns / prediction.idle.total_ns
    by = f" ({part.source[-_MAX_CAUSE_LENGTH:]})" if part.source else ""
    return (
        f"{format_ns(round(prediction.remaining_idle_ns))} of idle time remains with a graph, "
        f"{format_ns(round(ns))} of it {_IDLE_ACTIVITIES[part.cause]}{by}."
    )


_NO_CPU_EVENTS: Final = "the trace has no CPU events"
_IDLE_OUTCOMES: Final = {IdleCause.LAUNCHING: "removed", IdleCause.UNKNOWN: "unknown"}
IDLE_HEADINGS: Final = ("CPU activity", "idle", "share", "with a graph", "mostly in")


def build_idle_rows(idle: IdleTime) -> tuple[tuple[str, str, str, str, str], ...]:
    """Build the rows of idle time by cause, under IDLE_HEADINGS."""
    return tuple(
        (
            part.cause.value,
            format_ns(round(part.ns)),
            format_percent(part.ns / idle.total_ns),
            _IDLE_OUTCOMES.get(part.cause, "remains"),
            part.source or "",
        )
        for part in idle.parts
    )


def format_idle_time(prediction: Prediction) -> str:
    """Format the idle time and its reference period."""
    return f"{format_ns(round(prediction.idle.total_ns))} of {_format_reference_period(prediction)}"


def describe_idle_method(prediction: Prediction) -> str:
    """Describe the attribution of idle time."""
    method = (
        "Idle time is attributed to the activity of the launching threads until the next launch. "
        "Between launches at most 1 ms apart, everything except data loading counts as launching. "
        "Otherwise only the launching operators do, and the rest goes to whatever ran."
    )
    return method if prediction.covers_whole_trace else f"{method} {_MEANS_NOTE}"


_MEANS_NOTE: Final = "Values are means over the traced steps."


def _format_reference_period(prediction: Prediction) -> str:
    return "the trace" if prediction.covers_whole_trace else "a traced step"


def format_predicted_gain(prediction: Prediction) -> str:
    """Format the speedup with its interval, such as ``3.10x faster (2.80x to 3.40x)``, or the
    slowdown. Empty if the trace marks no steps."""
    speedup = prediction.speedup
    if isinstance(speedup, Missing):
        return ""
    if speedup.value < 1:
        return f"{format_ratio(1 / speedup.value)} slower"
    return f"{format_ratio(speedup.value)} faster{_format_speedup_interval(speedup)}"


def format_predicted_times(prediction: Prediction) -> str:
    """Format the eager and the predicted step time with the source of the first."""
    side = {
        EagerSide.CLEAN: "measured without a profiler",
        EagerSide.RECORDED_MEDIAN: "recorded median",
        EagerSide.RECORDED_MEAN: "recorded mean",
        EagerSide.TRACED: "under the profiler",
    }[prediction.eager_side]
    graphed = format_ns(prediction.graphed.value)
    return f"{format_ns(prediction.eager_ns)} {side}, {graphed} predicted"


def format_blocker(blocker: Blocker) -> str:
    """Format a capture blocker and its location, such as ``a copy from memory that is not pinned at
    train.py:88``."""
    title = blocker.rule.title[:1].lower() + blocker.rule.title[1:]
    if blocker.source:
        return f"{title} at {blocker.source}"
    location = [f"in {name}" for name in (blocker.module, blocker.op) if name]
    return " ".join((title, *location[:1]))


def format_blocker_facts(blocker: Blocker, prediction: Prediction) -> str:
    """Format the evidence of a blocker: calls, count, cost, and surrounding code."""
    period = "" if prediction.covers_whole_trace else " per step"
    times = "" if blocker.count == 1 else f", {blocker.count} times{period}"
    cost = (
        f", {format_ns(blocker.cpu_ns)} in {_format_reference_period(prediction)}"
        if blocker.cpu_ns
        else ""
    )
    context = [("op", blocker.op), ("module", blocker.module), ("at", blocker.source)]
    location = ", ".join(f"{label} {value}" for label, value in context if value)
    return "; ".join(filter(None, (f"{format_evidence(blocker.evidence)}{times}{cost}", location)))


def format_blocker_certainty(blocker: Blocker) -> str:
    """Format its severity, marked ``possibly`` if the trace makes it only likely."""
    severity = blocker.rule.severity.value
    return severity if blocker.certain else f"possibly {severity}"


def format_one_off_cost(prediction: Prediction) -> str:
    """Format the one-time cost of the graph with its parts."""
    parts = ", ".join(f"{name} {format_ns(round(ns))}" for name, ns in prediction.one_off)
    total = format_ns(round(prediction.one_off_ns))
    if all(name != CAPTURE for name, _ in prediction.one_off):
        return (
            f"at least {total}: {parts}; the cost of the capture is unknown because the trace "
            "shows no launches"
        )
    return f"about {total}: {parts}"


_GAPS: Final = {
    ReplayTerm.KERNEL: "before kernels",
    ReplayTerm.WIDE: "extra after kernels that fill the GPU",
    ReplayTerm.SET: "around memory sets",
    ReplayTerm.COPY: "around device copies",
    ReplayTerm.HOST_COPY: "around host copies",
    ReplayTerm.JOIN: "extra at waits for another stream",
}


def list_prediction_reasons(prediction: Prediction) -> tuple[str, ...]:
    """List the numbers behind the prediction."""
    step, replay = prediction.step, prediction.replay
    sides = {EagerSide.CLEAN: "", EagerSide.TRACED: " under the profiler"}
    side = sides.get(prediction.eager_side, f" ({prediction.eager_side.value})")
    is_full_trace = prediction.covers_whole_trace
    period = f"{'the trace' if is_full_trace else 'the eager step'}{side}"
    share = min(step.busy_ns / prediction.eager_ns, 1.0) if prediction.eager_ns else 0.0
    texts = [
        f"{_format_work(prediction)}; the GPU is busy for {format_ns(step.busy_ns)} of the "
        f"{format_ns(round(prediction.eager_ns))} of {period} "
        f"({format_percent(share)}) and idle for {format_ns(round(prediction.idle_ns))}"
        + (
            f", of which {format_ns(round(prediction.remaining_idle_ns))} would remain"
            if prediction.remaining_idle_ns >= 1
            else ""
        ),
        f"a replay does the same work, {format_ns(round(replay.work_ns))} on its critical path",
    ]
    if replay.slowed_ns >= 1:
        texts.append(
            "concurrent work on several streams slows each other: "
            f"{format_ns(round(replay.slowed_ns))} on the critical path"
        )
    if replay.heat_ns >= 1:
        texts.append(
            f"long tensor-core kernels cost {format_ns(round(replay.heat_ns))} more in a loop of "
            "such steps because of the power limit"
        )
    gaps = "; ".join(
        f"{format_ns(round(ns))} {_GAPS[term]} ({format_count(count)})"
        for term, count, ns in replay.gaps
        if ns >= 1
    )
    if gaps:
        texts.append(f"remaining gaps between nodes: {format_ns(round(replay.gap_ns))} ({gaps})")
    overhead = f"launch and return: {format_ns(round(replay.fixed_ns))}"
    if replay.random_ns:
        overhead += f", and {format_ns(round(replay.random_ns))} to seed random numbers"
    texts.append(overhead)
    return tuple(texts)


def _format_work(prediction: Prediction) -> str:
    step = prediction.step
    kinds = [
        (step.kind.count("kernel"), "kernel"),
        (step.kind.count("memcpy"), "copy"),
        (step.kind.count("memset"), "set"),
    ]
    pieces = ", ".join(
        f"{format_count(count)} {_pluralize_work(word, count)}" for count, word in kinds if count
    )
    period = "" if prediction.covers_whole_trace else " per step"
    return f"{pieces}{period} on {pluralize(step.stream_count, 'stream')}"


def _pluralize_work(word: str, count: int) -> str:
    if count == 1:
        return word
    return "copies" if word == "copy" else f"{word}s"


_NOT_CHECKED: Final = {
    NotChecked.STEPS_DIFFER: "whether steps differ: the trace has fewer than two",
    NotChecked.SOURCE_LINES: "source lines: the trace has no Python stacks (with_stack=True)",
    NotChecked.OPERATORS: "operators: the trace contains none",
    NotChecked.MOVED_INPUTS: (
        "whether inputs move between steps: `graphviz-dash doctor` checks this"
    ),
}


def list_unchecked(prediction: Prediction) -> tuple[str, ...]:
    """List the capture checks that the trace does not support."""
    kernels = prediction.step.integrity.format_lost_launches()
    calls = f"all calls: {kernels}, so other calls may be missing too"
    return tuple(
        calls if check is NotChecked.CALLS else _NOT_CHECKED[check]
        for check in prediction.not_checked
    )


def list_warnings(prediction: Prediction) -> tuple[str, ...]:
    """List the caveats of the prediction, one line each."""
    return tuple(_format_warning(prediction, warning) for warning in prediction.warnings)


_PARTIAL_BASIS: Final = (
    PredictionWarning.UNLIKE_STEPS,
    PredictionWarning.INCOMPLETE_TRACE,
    PredictionWarning.LOST_RECORDS,
    PredictionWarning.LOST_LAUNCHES,
    PredictionWarning.CLOCKS,
    PredictionWarning.GRAPHED_SHARE,
)


def list_partial_bases(prediction: Prediction) -> tuple[str, ...]:
    """List the caveats of a prediction that covers only a part of the trace or of its work."""
    return tuple(
        _format_warning(prediction, warning)
        for warning in prediction.warnings
        if warning in _PARTIAL_BASIS
    )


def _format_warning(prediction: Prediction, warning: PredictionWarning) -> str:
    calibrated = prediction.calibration.gpu.name
    match warning:
        case PredictionWarning.UNKNOWN_GPU:
            return (
                f"the trace does not name its GPU and the calibration is for {calibrated}: on "
                f"another GPU, gaps between nodes differ; {_WIDER_INTERVALS_NOTE}"
            )
        case PredictionWarning.OTHER_GPU:
            return (
                f"the trace is from {prediction.gpu}, the calibration from {calibrated}: gaps "
                f"between nodes differ; {_WIDER_INTERVALS_NOTE}; calibrate that GPU with "
                "`graphviz-dash bench "
                "predict`"
            )
        case PredictionWarning.FEW_STEPS | PredictionWarning.UNLIKE_STEPS:
            return _format_few_steps(prediction.step, warning)
        case PredictionWarning.INCOMPLETE_TRACE:
            return f"the trace is incomplete: {(prediction.incomplete or '').removesuffix('.')}"
        case (
            PredictionWarning.LOST_RECORDS
            | PredictionWarning.LOST_LAUNCHES
            | PredictionWarning.CLOCKS
            | PredictionWarning.GRAPHED_SHARE
        ):
            return _format_partial_basis(prediction.step, warning)
    return _WARNINGS[warning]


def _format_few_steps(step: EagerStep, warning: PredictionWarning) -> str:
    if warning is PredictionWarning.FEW_STEPS:
        steps = pluralize(len(step.matching), "traced step")
        return f"only {steps} ran the same work; 3 or more would be more reliable"
    return (
        f"only {len(step.matching):,} of {len(step.steps):,} traced steps ran this work, so the "
        "prediction is for such a step and not for the loop"
    )


def _format_partial_basis(step: EagerStep, warning: PredictionWarning) -> str:
    match warning:
        case PredictionWarning.LOST_RECORDS:
            return _format_lost_records(step.integrity)
        case PredictionWarning.LOST_LAUNCHES:
            kernels = step.integrity.format_lost_launches()
            return f"{kernels}: capture blockers and idle causes may be incomplete"
        case PredictionWarning.CLOCKS:
            drift = step.integrity.clock_drift
            longer = f", so the predicted step is {format_percent(drift)} longer" if drift else ""
            error = step.integrity.explain_clock_error(0)
            return f"{error}: the step time may be wrong by as much{longer}"
    return _format_graphed_share(step)


def _format_graphed_share(step: EagerStep) -> str:
    return (
        f"{format_count(step.graphed)} of {format_count(len(step))} kernels, memcpys and "
        f"memsets ({format_percent(step.graphed / len(step))}) come from graph launches "
        "and stay as they are: the gain is that of the other work"
    )


def _format_lost_records(integrity: TraceIntegrity) -> str:
    lost = integrity.format_losses()
    if not integrity.steps:
        return f"{lost}: counts and busy time are lower bounds"
    excluded = integrity.steps - len(integrity.complete_steps)
    is_or_are = "is" if excluded == 1 else "are"
    return f"{lost}; {excluded:,} of {integrity.steps:,} steps {is_or_are} excluded as incomplete"


_WIDER_INTERVALS_NOTE: Final = (
    f"intervals are {OTHER_GPU_FACTOR:g} times as wide, a factor tested only on an H100 with an "
    "H200 "
    "calibration"
)

_WARNINGS: Final = {
    PredictionWarning.UNMARKED_STEPS: (
        "the trace marks no steps: all of it is counted together, without a per-step speedup or an "
        "interval"
    ),
    PredictionWarning.COLLECTIVES: ("collectives include their waits for other ranks, as traced"),
    PredictionWarning.PROFILED_EAGER_STEP: (
        "the eager step was timed under the profiler, which lengthens launches: the speedup refers "
        "to that step, has no interval, and is smaller without the profiler"
    ),
}


def format_evidence(evidence: Evidence) -> str:
    """Format the evidence of a blocker."""
    match evidence:
        case ForbiddenCalls(calls):
            return ", ".join(f"{call}: {copy}" if copy else call for call, copy in calls)
        case OptimizerRead(optimizer):
            return f"{optimizer} reads a value on the CPU, as it does without capturable=True"
        case StepDifference():
            return _format_step_difference(evidence)


def _format_step_difference(seen: StepDifference) -> str:
    subject = (
        "the first step, which may still warm up,"
        if seen.only_first
        else f"{seen.differing} of {seen.steps} steps"
    )
    verb = "differs" if seen.differing == 1 else "differ"
    if seen.typical_item_count != seen.differing_item_count:
        difference = f"{seen.differing_item_count} operations instead of {seen.typical_item_count}"
    else:
        difference = "different operations or sizes"
    typical, other = (
        "nothing" if name is None else name[:_MAX_NAME_LENGTH]
        for name in (seen.typical_name, seen.differing_name)
    )
    return f"{subject} {verb}: {difference}, first {other} in place of {typical}"


def is_within_interval(prediction: Prediction, step_ns: float | None) -> bool:
    """Check whether the interval of a prediction contains the measured step time."""
    step = prediction.step_ns
    if step.low is None or step.high is None or step_ns is None:
        return False
    return step.low <= step_ns <= step.high


def format_prediction_score(prediction: Prediction, measured: float | None) -> str:
    """Format the prediction next to the measurement."""
    step = prediction.step_ns
    predicted = f"Predicted from the eager trace: {format_ns(round(step.value))} per step"
    if step.low is None or step.high is None:
        return f"{predicted}."
    predicted += f" ({format_ns(round(step.low))} to {format_ns(round(step.high))})"
    if not measured:
        return f"{predicted}."
    inside = is_within_interval(prediction, measured)
    return (
        f"{predicted}; measured: {format_ns(measured)}, error "
        f"{step.value / measured - 1:+.1%}, {'within' if inside else 'outside'} the interval."
    )
