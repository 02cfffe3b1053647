"""What a graph would take on several streams, and what came of capturing it so, in sentences and
rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphviz_dash.errors import printable
from graphviz_dash.features.prediction.analysis.eager_bounds import EagerBounds
from graphviz_dash.features.prediction.analysis.measured import (
    LargerPlan,
    attempt_ns,
    attempt_speedup,
    chain_share,
    chosen_attempt,
    larger_plans,
)
from graphviz_dash.features.prediction.analysis.needs import NodeNeed
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    LineBasis,
    OnStreams,
    Outlook,
    ParallelPrediction,
)
from graphviz_dash.features.prediction.analysis.work import NeedSource
from graphviz_dash.model.parallel import Attempt, ParallelCheck, ParallelPlan, Verdict
from graphviz_dash.planning.operators import Need
from graphviz_dash.units import (
    counted,
    format_bytes,
    format_count,
    format_ns,
    format_percent,
    format_ratio,
)

STREAM_HEADINGS: Final = ("streams", "predicted", "90% from", "to", "speedup")

_BASIS: Final = {
    LineBasis.CLEAN: "the clean step",
    LineBasis.TRACED: "a replay in the trace, which the profiler lengthens",
}
_SOURCE: Final = {
    NeedSource.OPERATORS: (
        "What needs what is what the operators of the step were seen to read and write."
    ),
    NeedSource.MEMORY: (
        "What needs what is told from the memory that nodes can reach, so that some of it may be "
        "needless: a capture that reuses no memory between streams can be faster than this, which "
        "the interval allows for. Collected with the mode parallel the step shows its data flow."
    ),
    NeedSource.MEANING: (
        "The bundle does not say what memory nodes reach: all edges count as needed but for those "
        "that the meaning of operators shows to be needless, and the interval reaches down to what "
        "the GPU must do."
    ),
}
_AS_KNOWN: Final = {
    NeedSource.OPERATORS: "",
    NeedSource.MEMORY: ", as far as its memory tells",
    NeedSource.MEANING: ", as far as its edges tell",
}
_REASON: Final = {
    Outlook.CHAIN: "nearly all of it must be done one after another",
    Outlook.FULL: "what could run together fills the GPU by itself",
    Outlook.CROSSINGS: (
        "what could run together is shorter than the way from one stream to another"
    ),
}


def parallel_verdict(prediction: ParallelPrediction) -> str:
    """Whether several streams would gain, in a sentence."""
    best = prediction.best
    if prediction.outlook is not Outlook.FASTER:
        caveat = _AS_KNOWN[prediction.work.source]
        return (
            f"On several streams it would gain nothing worth having{caveat}: "
            f"{_REASON[prediction.outlook]}."
        )
    low = prediction.line_ns / (best.step.high or best.step.value)
    high = prediction.line_ns / (best.step.low or best.step.value)
    return (
        f"Captured on {counted(best.streams, 'stream')}, with only the dependencies that it needs, "
        f"it would take {format_ns(round(best.step.value))} instead of "
        f"{format_ns(round(prediction.line_ns))}: {format_ratio(best.speedup)} as fast "
        f"({format_ratio(low)} to {format_ratio(high)})."
    )


def parallel_sentences(
    name: str, plan: ParallelPlan | None, prediction: ParallelPrediction
) -> tuple[str, ...]:
    """What several streams would give a graph of the run ``name``, or where it was captured so, by
    ``plan``, what came of that."""
    if plan is not None:
        return plan_sentences(name, plan)
    return (parallel_verdict(prediction), *parallel_notes(prediction))


def parallel_notes(prediction: ParallelPrediction) -> tuple[str, ...]:
    """What the prediction rests on, what bounds it and what contention costs."""
    least, schedule = prediction.least, prediction.plan.schedule
    path, capacity = format_ns(round(prediction.path_ns)), format_ns(round(least.capacity_ns))
    if prediction.work.source is NeedSource.OPERATORS:
        bound = (
            f"No number of streams can undercut the longest chain of what needs each other, {path} "
            f"with the gaps between its nodes, nor all of its work at full use of the GPU, "
            f"{capacity}."
        )
    else:
        bound = (
            f"The longest chain of what may need each other takes {path} with the gaps between its "
            f"nodes. No number of streams can undercut all of its work at full use of the GPU, "
            f"{capacity}."
        )
    notes = [
        f"As captured it takes {format_ns(round(prediction.line_ns))}: "
        f"{_BASIS[prediction.basis]}. {bound}",
        _SOURCE[prediction.work.source],
    ]
    if prediction.plan.streams > 1 and round(schedule.slowed_ns):
        share = schedule.slowed_ns / schedule.total_ns if schedule.total_ns else 0.0
        notes.append(
            f"Along its longest way kernels are slowed by {format_ns(round(schedule.slowed_ns))} "
            f"({format_percent(share)}) because those beside them take their part of the GPU."
        )
    return tuple(notes)


def stream_row(row: OnStreams) -> tuple[str, str, str, str, str]:
    """A row by streams, under STREAM_HEADINGS."""
    step = row.step
    bounds = [
        "" if value is None or step.low == step.high else format_ns(round(value))
        for value in (step.low, step.high)
    ]
    return (
        str(row.streams),
        format_ns(round(step.value)),
        bounds[0],
        bounds[1],
        format_ratio(row.speedup),
    )


_NEED: Final = {
    Need.READ_AFTER_WRITE: "reads what it wrote",
    Need.WRITE_AFTER_READ: "writes over what it read",
    Need.WRITE_AFTER_WRITE: "writes over what it wrote",
    Need.OPAQUE: "keeps its order: one of them may do what its arguments do not show",
    Need.COLLECTIVE: "keeps its order: all ranks must issue collectives alike",
}


def need_text(need: NodeNeed) -> str:
    """What a node needs another for."""
    if need.need is not None:
        tensor = need.storage
        if tensor is None:
            return _NEED[need.need]
        shape = ", ".join(map(str, tensor.shape))
        return f"{_NEED[need.need]}: {tensor.dtype} [{shape}], {format_bytes(tensor.bytes)}"
    if need.shared_bytes is not None:
        return f"both can reach {format_bytes(need.shared_bytes)}"
    return "of one operator, or as captured"


EAGER_HEADINGS: Final = ("streams", "at best", "estimated", "at most")

_EAGER_OBSERVE: Final = (
    "`graphviz-dash collect --modes eager,graph,parallel` observes the step and tells."
)


def eager_note(bounds: Sequence[EagerBounds]) -> str:
    """What the rows rest on."""
    best = (
        "An eager trace does not tell which operator needs which result. At best nothing needs "
        "anything, and only the GPU, its launches and the longest kernel hold it up"
    )
    if all(each.value_ns is None for each in bounds):
        return (
            f"{best}; at most it is a line: no operator whose meaning would tell more, such as the "
            f"backward of a product, was seen, so that nothing is estimated. {_EAGER_OBSERVE}"
        )
    return (
        f"{best}. Estimated is what runs side by side if the parts of a product's backward do, "
        "which need the incoming gradient and not each other, and all else keeps its order; at "
        f"most that takes as long as nine of ten of such plans did. {_EAGER_OBSERVE}"
    )


def eager_row(bounds: EagerBounds) -> tuple[str, str, str, str]:
    """A row by streams, under EAGER_HEADINGS."""
    value = "–" if bounds.value_ns is None else format_ns(round(bounds.value_ns))
    low, high = (format_ns(round(ns)) for ns in (bounds.low_ns, bounds.high_ns))
    return str(bounds.streams), low, value, high


_NO_SLOWER: Final = 1.02
"""Of the line's time, what it may take with little workspace to be worth a try."""

ATTEMPT_HEADINGS: Final = (
    "streams",
    "edges between them",
    "predicted",
    "measured",
    "off by",
    "speedup",
    "memory",
    "of it workspaces",
)

_VERDICT: Final = {
    Verdict.CHAIN: "each operator needs the one before, nearly all along the step",
    Verdict.FULL: "what could run together fills the GPU by itself",
    Verdict.MEMORY: "the faster plans take more memory",
    Verdict.NOISE: "no plan was measurably faster",
}


def plan_sentences(name: str, plan: ParallelPlan) -> tuple[str, ...]:
    """What came of the plan of the run ``name``, what it costs, and how it was checked."""
    chosen = chosen_attempt(plan)
    line_ns = (chosen and chosen.line_ns) or attempt_ns(plan.line)
    plan_ns = None if chosen is None else attempt_ns(chosen)
    if plan.verdict is not Verdict.FASTER or chosen is None or not line_ns or not plan_ns:
        reason = _VERDICT.get(plan.verdict, "no plan was timed")
        within = ""
        if plan.verdict is Verdict.MEMORY and plan.memory_limit_bytes is not None:
            within = f" within {format_bytes(plan.memory_limit_bytes)}"
        outcome = f"{printable(name)}: the line is as good{within}: {reason}."
        return (outcome, *_bounds(plan), *_for_more_memory(plan), _check(plan.check))
    memory = ""
    if chosen.memory_bytes is not None and plan.line.memory_bytes is not None:
        memory = (
            f" Its capture takes {format_bytes(chosen.memory_bytes)} of memory, the line "
            f"{format_bytes(plan.line.memory_bytes)}."
        )
    off = chosen.expected_ns / plan_ns - 1
    return (
        f"{printable(name)}: on {counted(chosen.streams, 'stream')} a replay takes "
        f"{format_ns(round(plan_ns))} instead of {format_ns(round(line_ns))} on one: "
        f"{format_ratio(line_ns / plan_ns)} as fast; {format_ns(chosen.expected_ns)} were "
        f"predicted ({off:+.1%}).{memory}{_fitted(plan, chosen)}",
        *_bounds(plan),
        *_for_more_memory(plan),
        _check(plan.check),
    )


def _fitted(plan: ParallelPlan, chosen: Attempt) -> str:
    """What its streams have of workspace, where that is less than cuBLAS is told."""
    if plan.fitted_bytes is None or not chosen.wide_streams:
        return ""
    if chosen.wide_streams == chosen.streams:
        which = "Each of its streams has"
    else:
        which = f"{format_count(chosen.wide_streams)} of its streams have"
    return (
        f" {which} {format_bytes(plan.fitted_bytes)} of cuBLAS's workspace: its kernels write no "
        "more of what they are chosen for."
    )


def _bounds(plan: ParallelPlan) -> tuple[str, ...]:
    share = chain_share(plan)
    if not share or plan.verdict is Verdict.CHAIN:
        return ()
    return (
        f"The longest chain of operators that need each other is {format_percent(share)} of the "
        f"line: no plan can be much more than {format_ratio(1 / share)} as fast.",
    )


def _for_more_memory(plan: ParallelPlan) -> tuple[str, ...]:
    """What more memory would buy, and how else it can be had."""
    larger = larger_plans(plan)
    if not larger:
        return ()
    first, last = larger[0], larger[-1]
    ways = [_larger(plan, first)] + ([_larger(plan, last)] if last is not first else [])
    sentences = [f"With more memory: {'; '.join(ways)}."]
    narrow_ns, line_ns = plan.narrow_line_ns, attempt_ns(plan.line)
    whole = plan.fitted_bytes is None
    if whole and narrow_ns and line_ns and narrow_ns <= _NO_SLOWER * line_ns:
        wide = sum(operator.wide and operator.nodes > 0 for operator in plan.operators)
        sentences.append(
            f"{counted(wide, 'operator')} of the step {'runs' if wide == 1 else 'run'} other "
            "kernels where cuBLAS has less workspace than by default, so that each stream with any "
            f"of them needs all of it. With little of it the line takes {format_ns(narrow_ns)}: "
            "set CUBLAS_WORKSPACE_CONFIG=:1024:1 for the whole program, and eager steps and graphs "
            "alike run those kernels, on any stream. Results then differ in their last bits from "
            "those without it."
        )
    return tuple(sentences)


def _larger(plan: ParallelPlan, each: LargerPlan) -> str:
    line = plan.line.memory_bytes
    times = f", {format_ratio(each.memory_bytes / line)} the line's" if line else ""
    verb = "takes" if each.measured else "should take"
    return (
        f"on {counted(each.streams, 'stream')} it {verb} {format_ns(round(each.time_ns))} "
        f"({format_ratio(each.speedup)} as fast as the line) and "
        f"{format_bytes(each.memory_bytes)}{times}"
    )


def _check(check: ParallelCheck) -> str:
    if not check.replays:
        return "It was not checked against eager steps."
    tensors = counted(check.tensors, "tensor")
    if check.bitwise_replays == check.replays:
        equal = f"equal in every bit ({tensors} each)"
    else:
        equal = (
            f"{format_count(check.bitwise_replays)} equal in every bit, the others within "
            f"{check.difference:.1e} of the largest value ({tensors} each), where two eager steps "
            f"differ by {check.eager_difference:.1e}"
        )
    return (
        f"Checked on {counted(check.replays, 'replay')} with changed inputs, "
        f"{format_count(check.delayed_replays)} of them with kernels delayed at random and "
        f"{format_count(check.loaded_replays)} beside other work: {equal}."
    )


def attempt_row(plan: ParallelPlan, attempt: Attempt) -> tuple[str, ...]:
    """One plan that was tried, or only predicted, under ATTEMPT_HEADINGS."""
    time_ns, speedup = attempt_ns(attempt), attempt_speedup(plan, attempt)
    sizes = [
        "–" if size is None else format_bytes(size)
        for size in (attempt.memory_bytes, attempt.workspace_bytes)
    ]
    if attempt.memory_bytes is None and attempt.expected_bytes is not None:
        sizes[0] = f"{format_bytes(attempt.expected_bytes)} predicted"
    chosen = chosen_attempt(plan)
    mark = ", chosen" if attempt is chosen else ""
    return (
        f"{attempt.streams}{mark}",
        format_count(attempt.edges),
        format_ns(attempt.expected_ns),
        "–" if time_ns is None else format_ns(round(time_ns)),
        "–" if not time_ns else f"{attempt.expected_ns / time_ns - 1:+.1%}",
        "–" if speedup is None else format_ratio(speedup),
        *sizes,
    )


def plan_caption(plan: ParallelPlan) -> str:
    """How the plans came about."""
    limit = (
        "any amount of memory"
        if plan.memory_limit_bytes is None
        else f"{format_bytes(plan.memory_limit_bytes)} of memory at most"
    )
    differ = sum(attempt.differs_at is not None for attempt in plan.attempts)
    wrong = f" {format_count(differ)} gave other results and were dropped." if differ else ""
    opaque = sum(operator.opaque for operator in plan.operators) / max(len(plan.operators), 1)
    kept = (
        f" {format_percent(opaque)} of its operators keep their order: they may do what their "
        "arguments do not show."
        if opaque
        else ""
    )
    return (
        f"{counted(len(plan.operators), 'operator')}, planned with {limit}; each plan is predicted "
        f"first and the best few are captured and timed.{kept}{wrong}"
    )
