"""Multi-stream predictions and measurements of a graph, in sentences and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.prediction.analysis.eager_bounds import EagerBounds
from graphviz_dash.features.prediction.analysis.measured import (
    LargerPlan,
    compute_attempt_ns,
    compute_attempt_speedup,
    compute_chain_share,
    find_larger_plans,
    select_attempt,
)
from graphviz_dash.features.prediction.analysis.needs import NodeNeed
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    BaselineBasis,
    ParallelPrediction,
    ParallelVerdict,
    StreamPrediction,
)
from graphviz_dash.features.prediction.analysis.work import NeedSource
from graphviz_dash.model.parallel import Attempt, ParallelCheck, ParallelPlan, Verdict
from graphviz_dash.planning.operators import DependencyKind
from graphviz_dash.units import (
    format_bytes,
    format_count,
    format_ns,
    format_percent,
    format_ratio,
    pluralize,
)

STREAM_HEADINGS: Final = ("streams", "predicted", "90% from", "to", "speedup")

_BASIS_NAMES: Final = {
    BaselineBasis.CLEAN: "the clean step",
    BaselineBasis.TRACED: "a traced replay, lengthened by the profiler",
}
_DEPENDENCY_SOURCES: Final = {
    NeedSource.OPERATORS: (
        "Dependencies come from the recorded reads and writes of the step's operators."
    ),
    NeedSource.MEMORY: (
        "Dependencies are inferred from memory that nodes can reach, so some may be "
        "redundant. A capture without memory reuse between streams can be faster; the interval "
        "allows for this. With the mode parallel, collect records the data flow."
    ),
    NeedSource.MEANING: (
        "The bundle does not record the memory that nodes reach. All edges count as dependencies "
        "except those that are redundant by the meaning of their operators, and the interval "
        "extends to the lower bound of the GPU's work."
    ),
}
_SOURCE_CAVEATS: Final = {
    NeedSource.OPERATORS: "",
    NeedSource.MEMORY: ", judging by its memory",
    NeedSource.MEANING: ", judging by its edges",
}
_VERDICT_REASONS: Final = {
    ParallelVerdict.CHAIN: "nearly all of it is sequential",
    ParallelVerdict.FULL: "each of the concurrent kernels fills the GPU alone",
    ParallelVerdict.CROSSINGS: (
        "concurrent kernels are shorter than the cost of switching streams"
    ),
}


def describe_parallel_verdict(prediction: ParallelPrediction) -> str:
    """Describe whether several streams would help, in one sentence."""
    best = prediction.best
    if prediction.verdict is not ParallelVerdict.FASTER:
        caveat = _SOURCE_CAVEATS[prediction.work.source]
        return (
            f"Several streams would bring no worthwhile gain{caveat}: "
            f"{_VERDICT_REASONS[prediction.verdict]}."
        )
    low = prediction.captured_ns / (best.step.high or best.step.value)
    high = prediction.captured_ns / (best.step.low or best.step.value)
    return (
        f"Captured on {pluralize(best.streams, 'stream')} with only the required dependencies, "
        f"it would take {format_ns(round(best.step.value))} instead of "
        f"{format_ns(round(prediction.captured_ns))}: {format_ratio(best.speedup)} as fast "
        f"({format_ratio(low)} to {format_ratio(high)})."
    )


def describe_parallel(
    name: str, plan: ParallelPlan | None, prediction: ParallelPrediction
) -> tuple[str, ...]:
    """Describe the effect of several streams, or the results of ``plan`` if captured so."""
    if plan is not None:
        return describe_plan(name, plan)
    return (describe_parallel_verdict(prediction), *list_parallel_notes(prediction))


def list_parallel_notes(prediction: ParallelPrediction) -> tuple[str, ...]:
    """Describe basis, bounds and contention cost."""
    least, schedule = prediction.lower_bound, prediction.plan.schedule
    path, capacity = format_ns(round(prediction.path_ns)), format_ns(round(least.capacity_ns))
    if prediction.work.source is NeedSource.OPERATORS:
        bound = (
            f"Lower bound for any number of streams: the longest dependency chain, {path} "
            f"with the gaps between its nodes, and all work at full GPU utilization, "
            f"{capacity}."
        )
    else:
        bound = (
            f"The longest chain of possible dependencies takes {path} with the gaps between its "
            f"nodes. Lower bound for any number of streams: all work at full GPU utilization, "
            f"{capacity}."
        )
    notes = [
        f"As captured it takes {format_ns(round(prediction.captured_ns))}: "
        f"{_BASIS_NAMES[prediction.basis]}. {bound}",
        _DEPENDENCY_SOURCES[prediction.work.source],
    ]
    if prediction.plan.stream_count > 1 and round(schedule.slowed_ns):
        share = schedule.slowed_ns / schedule.total_ns if schedule.total_ns else 0.0
        notes.append(
            f"On the critical path, kernels are slowed by {format_ns(round(schedule.slowed_ns))} "
            f"({format_percent(share)}) because concurrent kernels share the GPU."
        )
    return tuple(notes)


def build_stream_row(row: StreamPrediction) -> tuple[str, str, str, str, str]:
    """Build a row under STREAM_HEADINGS."""
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


_NEED_DESCRIPTIONS: Final = {
    DependencyKind.READ_AFTER_WRITE: "reads its output",
    DependencyKind.WRITE_AFTER_READ: "overwrites its input",
    DependencyKind.WRITE_AFTER_WRITE: "overwrites its output",
    DependencyKind.OPAQUE: "keeps its order: one of them may have effects beyond its arguments",
    DependencyKind.COLLECTIVE: (
        "keeps its order: all ranks must issue collectives in the same order"
    ),
}


def format_need(need: NodeNeed) -> str:
    """Describe why a node depends on another."""
    if need.need is not None:
        tensor = need.storage
        if tensor is None:
            return _NEED_DESCRIPTIONS[need.need]
        shape = ", ".join(map(str, tensor.shape))
        return (
            f"{_NEED_DESCRIPTIONS[need.need]}: {tensor.dtype} [{shape}], "
            f"{format_bytes(tensor.bytes)}"
        )
    if need.shared_bytes is not None:
        return f"both can reach {format_bytes(need.shared_bytes)}"
    return "same operator, or as captured"


EAGER_HEADINGS: Final = ("streams", "lower bound", "estimate", "upper bound")

_EAGER_HINT: Final = (
    "`graphviz-dash collect --modes eager,graph,parallel` records the dependencies."
)


def describe_eager_bounds(bounds: Sequence[EagerBounds]) -> str:
    """Describe the basis of the rows."""
    lower_bound = (
        "An eager trace does not record dependencies between operators. The lower bound assumes "
        "none: only the GPU, its launches and the longest kernel limit the step"
    )
    if all(bound.value_ns is None for bound in bounds):
        return (
            f"{lower_bound}. The upper bound is a single stream. Nothing is estimated because no "
            "operator with a known data flow, such as the backward of a product, was found. "
            f"{_EAGER_HINT}"
        )
    return (
        f"{lower_bound}. The estimate runs the parts of a product's backward concurrently, "
        "as they need the incoming gradient and not each other, and keeps the order of everything "
        "else. "
        f"The upper bound holds for 90% of tested plans. {_EAGER_HINT}"
    )


def build_eager_row(bounds: EagerBounds) -> tuple[str, str, str, str]:
    """Build a row under EAGER_HEADINGS."""
    value = "–" if bounds.value_ns is None else format_ns(round(bounds.value_ns))
    low, high = (format_ns(round(ns)) for ns in (bounds.low_ns, bounds.high_ns))
    return str(bounds.streams), low, value, high


_MAX_SLOWDOWN: Final = 1.02
"""Time relative to one stream up to which a small workspace is worth trying."""

ATTEMPT_HEADINGS: Final = (
    "streams",
    "edges between streams",
    "predicted",
    "measured",
    "error",
    "speedup",
    "memory",
    "of which workspaces",
)

_PLAN_REASONS: Final = {
    Verdict.CHAIN: "each operator depends on the previous one in nearly all of the step",
    Verdict.FULL: "each of the concurrent kernels fills the GPU alone",
    Verdict.MEMORY: "the faster plans use more memory",
    Verdict.NOISE: "no plan was measurably faster",
}


def describe_plan(name: str, plan: ParallelPlan) -> tuple[str, ...]:
    """Describe the result of a plan, its cost and its check."""
    attempt = select_attempt(plan)
    line_ns = (attempt and attempt.serial_ns) or compute_attempt_ns(plan.serial)
    plan_ns = None if attempt is None else compute_attempt_ns(attempt)
    if plan.verdict is not Verdict.FASTER or attempt is None or not line_ns or not plan_ns:
        reason = _PLAN_REASONS.get(plan.verdict, "no plan was timed")
        limit = ""
        if plan.verdict is Verdict.MEMORY and plan.memory_limit_bytes is not None:
            limit = f" within {format_bytes(plan.memory_limit_bytes)}"
        outcome = f"{escape_control_characters(name)}: one stream is as good{limit}: {reason}."
        return (
            outcome,
            *_describe_bounds(plan),
            *_describe_larger_plans(plan),
            _describe_check(plan.check),
        )
    memory = ""
    if attempt.memory_bytes is not None and plan.serial.memory_bytes is not None:
        memory = (
            f" Its capture uses {format_bytes(attempt.memory_bytes)} of memory, the single stream "
            f"{format_bytes(plan.serial.memory_bytes)}."
        )
    error = attempt.predicted_ns / plan_ns - 1
    return (
        f"{escape_control_characters(name)}: on {pluralize(attempt.streams, 'stream')} a replay "
        "takes "
        f"{format_ns(round(plan_ns))} instead of {format_ns(round(line_ns))} on one: "
        f"{format_ratio(line_ns / plan_ns)} as fast; prediction {format_ns(attempt.predicted_ns)} "
        f"(error {error:+.1%}).{memory}{_describe_workspace(plan, attempt)}",
        *_describe_bounds(plan),
        *_describe_larger_plans(plan),
        _describe_check(plan.check),
    )


def _describe_workspace(plan: ParallelPlan, attempt: Attempt) -> str:
    """Describe the workspace of its streams if it is smaller than cuBLAS's setting."""
    if plan.workspace_bytes is None or not attempt.wide_streams:
        return ""
    if attempt.wide_streams == attempt.streams:
        subject = "Each of its streams has"
    else:
        subject = f"{format_count(attempt.wide_streams)} of its streams have"
    return (
        f" {subject} {format_bytes(plan.workspace_bytes)} of cuBLAS workspace, which is all that "
        "its kernels write."
    )


def _describe_bounds(plan: ParallelPlan) -> tuple[str, ...]:
    share = compute_chain_share(plan)
    if not share or plan.verdict is Verdict.CHAIN:
        return ()
    return (
        f"The longest chain of dependent operators is {format_percent(share)} of the "
        f"single-stream time: no plan can be much more than {format_ratio(1 / share)} as fast.",
    )


def _describe_larger_plans(plan: ParallelPlan) -> tuple[str, ...]:
    """Describe alternatives and the gain from more memory."""
    larger = find_larger_plans(plan)
    if not larger:
        return ()
    first, last = larger[0], larger[-1]
    options = [_format_larger_plan(plan, first)] + (
        [_format_larger_plan(plan, last)] if last is not first else []
    )
    sentences = [f"With more memory: {'; '.join(options)}."]
    narrow_ns, line_ns = plan.narrow_serial_ns, compute_attempt_ns(plan.serial)
    uses_full_workspace = plan.workspace_bytes is None
    if uses_full_workspace and narrow_ns and line_ns and narrow_ns <= _MAX_SLOWDOWN * line_ns:
        wide = sum(operator.needs_wide_stream and operator.nodes > 0 for operator in plan.operators)
        sentences.append(
            f"{pluralize(wide, 'operator')} of the step {'runs' if wide == 1 else 'run'} different "
            "kernels with less cuBLAS workspace than the default, so each stream with any "
            "of them needs all of it. With a small workspace, one stream takes "
            f"{format_ns(narrow_ns)}: "
            "set CUBLAS_WORKSPACE_CONFIG=:1024:1 for the whole program, and eager steps and graphs "
            "run those kernels on any stream. Results then differ in their last bits from "
            "those without it."
        )
    return tuple(sentences)


def _format_larger_plan(plan: ParallelPlan, plan_option: LargerPlan) -> str:
    line = plan.serial.memory_bytes
    times = f", {format_ratio(plan_option.memory_bytes / line)} of one stream" if line else ""
    verb = "takes" if plan_option.measured else "should take"
    return (
        f"on {pluralize(plan_option.streams, 'stream')} it {verb} "
        f"{format_ns(round(plan_option.time_ns))} ({format_ratio(plan_option.speedup)} as fast as "
        f"one stream) and {format_bytes(plan_option.memory_bytes)}{times}"
    )


def _describe_check(check: ParallelCheck) -> str:
    if not check.replays:
        return "Not checked against eager steps."
    tensors = pluralize(check.tensors, "tensor")
    if check.bitwise_replays == check.replays:
        equal = f"equal in every bit ({tensors} each)"
    else:
        equal = (
            f"{format_count(check.bitwise_replays)} equal in every bit, the others within "
            f"{check.difference:.1e} of the largest value ({tensors} each); two eager steps "
            f"differ by {check.eager_difference:.1e}"
        )
    return (
        f"Checked on {pluralize(check.replays, 'replay')} with changed inputs, "
        f"{format_count(check.delayed_replays)} of them with kernels delayed at random and "
        f"{format_count(check.loaded_replays)} next to other work: {equal}."
    )


def build_attempt_row(plan: ParallelPlan, attempt: Attempt) -> tuple[str, ...]:
    """Build a row under ATTEMPT_HEADINGS."""
    time_ns, speedup = compute_attempt_ns(attempt), compute_attempt_speedup(plan, attempt)
    sizes = [
        "–" if size is None else format_bytes(size)
        for size in (attempt.memory_bytes, attempt.workspace_bytes)
    ]
    if attempt.memory_bytes is None and attempt.predicted_bytes is not None:
        sizes[0] = f"{format_bytes(attempt.predicted_bytes)} predicted"
    chosen = select_attempt(plan)
    mark = ", chosen" if attempt is chosen else ""
    return (
        f"{attempt.streams}{mark}",
        format_count(attempt.edges),
        format_ns(attempt.predicted_ns),
        "–" if time_ns is None else format_ns(round(time_ns)),
        "–" if not time_ns else f"{attempt.predicted_ns / time_ns - 1:+.1%}",
        "–" if speedup is None else format_ratio(speedup),
        *sizes,
    )


def describe_plan_origin(plan: ParallelPlan) -> str:
    """Describe how the plans were made."""
    memory_limit = (
        "any amount of memory"
        if plan.memory_limit_bytes is None
        else f"{format_bytes(plan.memory_limit_bytes)} of memory at most"
    )
    differ = sum(attempt.differs_at is not None for attempt in plan.attempts)
    wrong = f" {format_count(differ)} gave different results and were dropped." if differ else ""
    opaque = sum(operator.opaque for operator in plan.operators) / max(len(plan.operators), 1)
    fixed_order = (
        f" {format_percent(opaque)} of its operators keep their order because they may have "
        "effects beyond their arguments."
        if opaque
        else ""
    )
    return (
        f"{pluralize(len(plan.operators), 'operator')}, planned with {memory_limit}; each plan is "
        f"predicted, and the best few are captured and timed.{fixed_order}{wrong}"
    )
