"""A prediction in words: the verdict, its reasons in numbers, what makes it weak, and what came of
it."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.metrics.thresholds import MODEST_SPEEDUP
from graphviz_dash.analysis.prediction.capture_blockers import (
    Blocker,
    OptimizerRead,
    Seen,
    SeenCalls,
    StepDifference,
)
from graphviz_dash.analysis.prediction.idle_time import IdleCause, IdleTime
from graphviz_dash.analysis.prediction.predict import (
    EagerSide,
    NotChecked,
    Prediction,
    PredictionWarning,
    Recommendation,
)
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.prediction.uncertainty import OTHER_GPU, Estimate
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import counted, format_count, format_ns, format_percent, format_ratio

_SHOWN_CAUSE: Final = 80
"""Characters of what causes idle time in a sentence: the last ones, as paths are long."""
_SHOWN_NAME: Final = 60
"""Characters of a kernel's name in a sentence."""


_NOTABLE: Final = 0.05
"""The part of the eager step from which idle time that a graph does not remove is named."""


def prediction_verdict(prediction: Prediction) -> str:
    """The prediction in a sentence, and what of the idle time a graph does not remove in another
    one, where that is much."""
    kept = _kept(prediction)
    return f"{_verdict(prediction)} {kept}" if kept else _verdict(prediction)


def _lead(speedup: Estimate) -> str:
    return "Yes" if speedup.value >= MODEST_SPEEDUP else "A little"


def _verdict(prediction: Prediction) -> str:
    times = _times(prediction)
    side = "" if prediction.eager_side is EagerSide.CLEAN else f" ({prediction.eager_side.value})"
    if isinstance(prediction.speedup, Missing):
        return (
            f"No verdict on a step: the trace marks none. All of it together is "
            f"{_work(prediction)}; the GPU works {format_ns(prediction.step.busy_ns)} of "
            f"{format_ns(round(prediction.eager_ns))}, and idles "
            f"{verdict_figure(prediction)} while the CPU launches."
        )
    interval = _interval(prediction.speedup)
    gain = f"{format_ratio(prediction.speedup.value)} faster{interval}, {times}{side} per step"
    match prediction.recommendation:
        case Recommendation.YES:
            return f"{_lead(prediction.speedup)}: as one graph the step would be {gain}."
        case Recommendation.BLOCKED:
            count = sum(blocker.certain for blocker in prediction.blockers)
            places = "one place stops" if count == 1 else f"{count} places stop"
            them = "it" if count == 1 else "them"
            lead = _lead(prediction.speedup)
            return f"{lead}, but {places} a capture: without {them} the step would be {gain}."
        case Recommendation.HARDLY:
            return f"Hardly: as one graph the step would be {gain}."
    return f"No: as one graph the step would take {times}{side}."


def verdict_figure(prediction: Prediction) -> str:
    """The figure of the verdict, as it stands there: the gain, the times of a step that gains
    nothing, or without marked steps the idle time that launching takes."""
    if isinstance(prediction.speedup, Missing):
        return format_ns(round(prediction.idle_ns - prediction.kept_ns))
    if prediction.recommendation is Recommendation.NO:
        return _times(prediction)
    return predicted_gain(prediction)


def _times(prediction: Prediction) -> str:
    graphed, eager = round(prediction.graphed.value), round(prediction.eager_ns)
    return f"{format_ns(graphed)} instead of {format_ns(eager)}"


def _interval(speedup: Estimate) -> str:
    if speedup.low is None:
        return ""
    return f" ({format_ratio(speedup.low)} to {format_ratio(speedup.high)})"


_DOES: Final = {
    IdleCause.LAUNCHING: "while the CPU launches",
    IdleCause.DATA: "waiting for data",
    IdleCause.WAITING: "for copies and synchronisation",
    IdleCause.LOADING: "for allocations and the loading of code, which warm steps seldom need",
    IdleCause.PROFILER: "for the profiler",
    IdleCause.OTHER: "for other Python and CPU operators",
}


def _kept(prediction: Prediction) -> str:
    """The largest part of the idle time that a graph does not remove, and who causes it."""
    if prediction.kept_ns < _NOTABLE * prediction.eager_ns:
        return ""
    part = prediction.idle.kept[0]
    ns = prediction.idle_ns * part.ns / prediction.idle.total_ns
    by = f" ({part.by[-_SHOWN_CAUSE:]})" if part.by else ""
    return (
        f"A graph does not remove {format_ns(round(prediction.kept_ns))} in which the GPU idles, "
        f"{format_ns(round(ns))} of them {_DOES[part.cause]}{by}."
    )


IDLE_HEADINGS: Final = ("while the CPU is", "idle", "share", "as a graph", "mostly in")


def idle_rows(idle: IdleTime) -> tuple[tuple[str, str, str, str, str], ...]:
    """The idle time by its causes, under IDLE_HEADINGS."""
    return tuple(
        (
            part.cause.value,
            format_ns(round(part.ns)),
            format_percent(part.ns / idle.total_ns),
            "removed" if part.cause is IdleCause.LAUNCHING else "remains",
            part.by or "",
        )
        for part in idle.parts
    )


def idle_text(prediction: Prediction) -> str:
    """How long the GPU idles, and in what."""
    return f"{format_ns(round(prediction.idle.total_ns))} of {_counted_in(prediction)}"


def idle_method(prediction: Prediction) -> str:
    """How idle time is divided."""
    method = (
        "By what the threads that launch did until the next launch: of launches within 1 ms of "
        "each other all between them but the loading of data is launching, of others the operators "
        "that launch, and the rest is laid on what ran."
    )
    return method if prediction.is_of_whole_trace else f"{method} {_MEANS}"


_MEANS: Final = "Means of the traced steps."


def _counted_in(prediction: Prediction) -> str:
    """What times of the trace are of."""
    return "the trace" if prediction.is_of_whole_trace else "a traced step"


def predicted_gain(prediction: Prediction) -> str:
    """The speedup with its interval: ``3.10x faster (2.80x to 3.40x)``, or how much slower; ""
    where the trace marks no steps."""
    speedup = prediction.speedup
    if isinstance(speedup, Missing):
        return ""
    if speedup.value < 1:
        return f"{format_ratio(1 / speedup.value)} slower"
    return f"{format_ratio(speedup.value)} faster{_interval(speedup)}"


def predicted_times(prediction: Prediction) -> str:
    """The eager step and the predicted one, and what the first is measured by."""
    side = {
        EagerSide.CLEAN: "measured without a profiler",
        EagerSide.RECORDED: "in its own loop",
        EagerSide.TRACED: "under the profiler",
    }[prediction.eager_side]
    graphed = format_ns(prediction.graphed.value)
    return f"{format_ns(prediction.eager_ns)} {side}, {graphed} predicted"


def blocker_text(blocker: Blocker) -> str:
    """What stops a capture and where: ``a copy from memory that is not pinned at train.py:88``."""
    title = blocker.rule.title[:1].lower() + blocker.rule.title[1:]
    if blocker.source:
        return f"{title} at {blocker.source}"
    where = [f"in {name}" for name in (blocker.module, blocker.op) if name]
    return " ".join((title, *where[:1]))


def blocker_facts(blocker: Blocker, prediction: Prediction) -> str:
    """What was seen of a blocker of ``prediction``: calls, how often, what it costs, and around
    which code."""
    each = "" if prediction.is_of_whole_trace else " in a step"
    times = "" if blocker.count == 1 else f", {blocker.count} times{each}"
    cost = f", {format_ns(blocker.cpu_ns)} in {_counted_in(prediction)}" if blocker.cpu_ns else ""
    around = [("op", blocker.op), ("module", blocker.module), ("at", blocker.source)]
    circumstances = ", ".join(f"{label} {value}" for label, value in around if value)
    return "; ".join(filter(None, (f"{seen_text(blocker.seen)}{times}{cost}", circumstances)))


def blocker_certainty(blocker: Blocker) -> str:
    """Its severity, and whether the trace makes it only likely: ``perhaps illegal``."""
    severity = blocker.rule.severity.value
    return severity if blocker.certain else f"perhaps {severity}"


def one_off_text(prediction: Prediction) -> str:
    """What the graph costs once, in parts."""
    parts = ", ".join(f"{name} {format_ns(round(ns))}" for name, ns in prediction.one_off)
    return f"about {format_ns(round(prediction.one_off_ns))}: {parts}"


_GAPS: Final = {
    ReplayTerm.KERNEL: "before kernels",
    ReplayTerm.WIDE: "more behind kernels that fill the GPU",
    ReplayTerm.SET: "around memory sets",
    ReplayTerm.COPY: "around copies on the device",
    ReplayTerm.HOST_COPY: "around copies from or to the host",
    ReplayTerm.JOIN: "more where a node waits for another stream",
}


def prediction_reasons(prediction: Prediction) -> tuple[str, ...]:
    """The prediction's reasons, in numbers."""
    step, replay = prediction.step, prediction.replay
    side = "" if prediction.eager_side is EagerSide.CLEAN else " under the profiler"
    whole = prediction.is_of_whole_trace
    takes = f"{'the trace' if whole else 'the eager step'} takes{side}"
    share = min(step.busy_ns / prediction.eager_ns, 1.0) if prediction.eager_ns else 0.0
    texts = [
        f"{_work(prediction)}; the GPU works {format_ns(step.busy_ns)} of the "
        f"{format_ns(round(prediction.eager_ns))} that {takes} "
        f"({format_percent(share)}) and idles {format_ns(round(prediction.idle_ns))}"
        + (
            f", of which {format_ns(round(prediction.kept_ns))} would remain"
            if prediction.kept_ns >= 1
            else ""
        ),
        f"a replay has the same work, {format_ns(round(replay.work_ns))} along its longest way",
    ]
    if replay.slowed_ns >= 1:
        texts.append(
            "work on several streams at once slows each other: "
            f"{format_ns(round(replay.slowed_ns))} along that way"
        )
    if replay.heat_ns >= 1:
        texts.append(
            f"long kernels on tensor cores take {format_ns(round(replay.heat_ns))} more in a loop "
            "of such steps, at the power limit"
        )
    gaps = "; ".join(
        f"{format_ns(round(ns))} {_GAPS[term]} ({format_count(count)})"
        for term, count, ns in replay.gaps
        if ns >= 1
    )
    if gaps:
        texts.append(f"gaps that remain between nodes: {format_ns(round(replay.gap_ns))} ({gaps})")
    once = f"launch and return: {format_ns(round(replay.fixed_ns))}"
    if replay.random_ns:
        once += f", and {format_ns(round(replay.random_ns))} to seed random numbers"
    texts.append(once)
    return tuple(texts)


def _work(prediction: Prediction) -> str:
    """The work of the step, counted."""
    step = prediction.step
    kinds = [
        (step.count("kernel"), "kernel"),
        (step.count("memcpy"), "copy"),
        (step.count("memset"), "set"),
    ]
    pieces = ", ".join(
        f"{format_count(count)} {_plural(word, count)}" for count, word in kinds if count
    )
    each = "" if prediction.is_of_whole_trace else " per step"
    return f"{pieces}{each} on {counted(step.streams, 'stream')}"


def _plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return "copies" if word == "copy" else f"{word}s"


_NOT_CHECKED: Final = {
    NotChecked.STEPS_DIFFER: "whether steps differ: the trace has no two of them",
    NotChecked.SOURCE_LINES: "lines of code: the trace has no Python stacks (with_stack=True)",
    NotChecked.OPERATORS: "operators: the trace was recorded without ProfilerActivity.CPU",
    NotChecked.MOVED_INPUTS: (
        "whether inputs move between steps: `graphviz-dash doctor` watches the program"
    ),
}


def not_checked_texts(prediction: Prediction) -> tuple[str, ...]:
    """What the trace cannot tell about a capture."""
    return tuple(_NOT_CHECKED[check] for check in prediction.not_checked)


def warning_texts(prediction: Prediction) -> tuple[str, ...]:
    """What makes the prediction weak, a line for each."""
    return tuple(_warning(prediction, warning) for warning in prediction.warnings)


def _warning(prediction: Prediction, warning: PredictionWarning) -> str:
    own = prediction.calibration.gpu.name
    match warning:
        case PredictionWarning.UNKNOWN_GPU:
            return (
                f"the trace does not name its GPU, the calibration is of {own}: if it is another, "
                f"gaps between nodes differ; {_WIDER}"
            )
        case PredictionWarning.OTHER_GPU:
            return (
                f"the trace is of {prediction.gpu}, the calibration of {own}: gaps between nodes "
                f"differ; {_WIDER}, make one there with `graphviz-dash bench predict`"
            )
        case PredictionWarning.FEW_STEPS:
            steps = counted(len(prediction.step.matching), "traced step")
            return f"only {steps} ran the same work; 3 or more would be more reliable"
        case PredictionWarning.INCOMPLETE_TRACE:
            return f"the trace is not whole: {prediction.incomplete}"
    return _WARNINGS[warning]


_WIDER: Final = (
    f"intervals are {OTHER_GPU:g} times as wide, which was tried on an H100 with an H200's "
    "calibration alone"
)

_WARNINGS: Final = {
    PredictionWarning.UNMARKED_STEPS: (
        "the trace marks no steps: all of it is counted together, so that there is no speedup of a "
        "step and no interval"
    ),
    PredictionWarning.COLLECTIVES: (
        "collectives hold the time in which they wait for other ranks, as traced"
    ),
    PredictionWarning.PROFILED_EAGER_STEP: (
        "the eager side is the step under the profiler, which lengthens launches: the speedup is "
        "against that step, has no interval, and is smaller against the step without a profiler"
    ),
}


def seen_text(seen: Seen) -> str:
    """What was seen of a blocker."""
    match seen:
        case SeenCalls(calls):
            return ", ".join(f"{call}: {copy}" if copy else call for call, copy in calls)
        case OptimizerRead(optimizer):
            return f"{optimizer} reads a number on the CPU, as one without capturable=True does"
        case StepDifference():
            return _difference(seen)


def _difference(seen: StepDifference) -> str:
    who = (
        "the first step, which may still warm up,"
        if seen.only_first
        else f"{seen.unlike} of {seen.steps} steps"
    )
    verb = "differs" if seen.unlike == 1 else "differ"
    if seen.usual_items != seen.other_items:
        what = f"{seen.other_items} pieces of work instead of {seen.usual_items}"
    else:
        what = "other work or other sizes"
    usual, other = (
        "nothing more" if name is None else name[:_SHOWN_NAME] for name in (seen.usual, seen.other)
    )
    return f"{who} {verb}: {what}, first {other} in the place of {usual}"


def scored_text(prediction: Prediction, measured: float | None) -> str:
    """The prediction beside the measurement, in words."""
    step = prediction.step_ns
    predicted = f"Predicted from the eager trace alone: {format_ns(round(step.value))} per step"
    if step.low is None or step.high is None:
        return f"{predicted}."
    predicted += f" ({format_ns(round(step.low))} to {format_ns(round(step.high))})"
    if not measured:
        return f"{predicted}."
    inside = step.low <= measured <= step.high
    return (
        f"{predicted}; measured: {format_ns(measured)}, so it was off by "
        f"{step.value / measured - 1:+.1%}, {'inside' if inside else 'outside'} its interval."
    )
