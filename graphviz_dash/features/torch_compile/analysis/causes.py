"""Causes that keep a compiled step from being one replay, with lines and predicted gains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause, find_first_rule
from graphviz_dash.features.torch_compile.analysis.dynamo_causes import (
    find_break_causes,
    find_recompile_causes,
)
from graphviz_dash.features.torch_compile.analysis.fixed_step import merge_partitions
from graphviz_dash.features.torch_compile.analysis.inputs import (
    DEVICE_CALLS,
    find_first_call,
    find_first_cpu_use,
    get_frame_lines,
)
from graphviz_dash.features.torch_compile.analysis.recording_causes import (
    find_copy_causes,
    find_repeated_call_causes,
    find_rerecording_causes,
    find_skip_causes,
    find_warning_causes,
)
from graphviz_dash.features.torch_compile.analysis.saving_range import compute_gain_range
from graphviz_dash.features.torch_compile.analysis.savings import (
    StepCosts,
    predict_gain,
    report_unavailable,
)
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import Compilation, CompiledFrame, SplitOperator, UserLine
from graphviz_dash.model.compile_rules import CompileRuleId

MIN_GAIN_SHARE: Final = 0.005
"""Share of a step below which a known gain is negligible."""


def find_compile_causes(
    compilation: Compilation,
    time: StepTime | Missing,
    step_ns: float | Missing,
    *,
    is_async: bool = False,
    process_medians: Sequence[float] = (),
) -> tuple[CompileCause, ...]:
    """Find the causes in ``compilation``, sorted by predicted gain.

    Args:
        compilation: record of torch.compile.
        time: breakdown of the traced steps.
        step_ns: clean step time.
        is_async: True if the clean step does not wait for the GPU at its end.
        process_medians: median step time of each process, in ns.
    """
    costs = None
    if not isinstance(time, Missing) and not isinstance(step_ns, Missing):
        costs = StepCosts(time, step_ns, is_async)
    frames = {frame.id: frame for frame in compilation.frames}
    candidates = [
        *find_break_causes(compilation, costs),
        *find_recompile_causes(compilation, frames),
        *find_split_causes(compilation, frames, costs),
        *find_skip_causes(compilation, frames, costs),
        *find_rerecording_causes(compilation, frames),
        *find_repeated_call_causes(compilation, frames, costs),
        *find_copy_causes(compilation, frames, costs),
        *find_warning_causes(compilation, frames, costs),
    ]
    causes = [cause for cause in candidates if not _is_negligible(cause, step_ns)]
    if costs is not None:
        causes = [_add_gain_range(cause, costs, process_medians) for cause in causes]
    return tuple(sorted(causes, key=_get_sort_key))


def _add_gain_range(
    cause: CompileCause, costs: StepCosts, process_medians: Sequence[float]
) -> CompileCause:
    if isinstance(cause.gain_ns, Missing):
        return cause
    parts = costs.time.parts
    work = sum(part.busy_ns for part in parts if part.part is not StepPart.COPIES)
    max_ns = costs.step_ns - work
    gain_range = compute_gain_range(cause.gain_ns, costs.step_ns, max_ns, process_medians)
    return replace(cause, gain_range=gain_range)


def _is_negligible(cause: CompileCause, step_ns: float | Missing) -> bool:
    if isinstance(cause.gain_ns, Missing) or isinstance(step_ns, Missing):
        return False
    return cause.gain_ns < MIN_GAIN_SHARE * step_ns


def _get_sort_key(cause: CompileCause) -> tuple[float, bool, float]:
    """Sort by gain; if it is unknown, one-time costs come last."""
    gain_ns = 0.0 if isinstance(cause.gain_ns, Missing) else cause.gain_ns
    return -gain_ns, cause.rule is CompileRuleId.RECOMPILING, -float(cause.one_time_ns or 0)


UNKNOWN_SPLIT_REASON: Final = (
    "the graph comes from Inductor's cache, which does not store the reason for a split"
)
"""Reason for a split that only the trace shows."""


_SKIPPED_GRAPH: Final = report_unavailable("the graph is not recorded; fix this first")
_ON_CPU: Final = re.compile(r"\bcpu\b|DeviceCopy")


_COPY: Final = re.compile(r"DeviceCopy|device_put|_to_copy")


_UNBACKED_CALLS: Final = re.compile(r"nonzero|\bunique|masked_select|\.item\(|\.tolist\(")


_NO_MATCH: Final = re.compile(r"(?!)")


_SPLIT_RULES: Final = (
    (_ON_CPU, CompileRuleId.CPU_WORK),
    (re.compile(r"unbacked|dynamic"), CompileRuleId.SIZE_FROM_DATA),
)


class _Split(Struct):
    """Splits at one line."""

    lines: tuple[UserLine, ...]
    frames: list[str]
    operators: list[SplitOperator]


def find_split_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """Find operators that split graphs, grouped by line."""
    splits: dict[str, _Split] = {}
    for split in compilation.partitionings:
        split_frame = split.frame or ""
        operators = [operator for partition in split.partitions for operator in partition.operators]
        # Copies from and to the CPU belong to the CPU work.
        on_cpu = [operator for operator in operators if _is_cpu_work(operator)]
        cpu_lines = (
            _find_split_lines(on_cpu[0], operators, frames.get(split_frame)) if on_cpu else ()
        )
        for operator in operators:
            lines = operator.lines or _find_split_lines(
                operator, operators, frames.get(split_frame)
            )
            if cpu_lines and _is_copy(operator):
                lines = cpu_lines
            line_text = lines[0].text if lines else split_frame
            line_splits = splits.setdefault(line_text, _Split(lines, [], []))
            line_splits.frames.append(split_frame)
            line_splits.operators.append(operator)
    _add_unexplained_splits(splits, compilation, frames, costs)
    skipped = {skip.frame for skip in compilation.skips}
    shares = Counter(frame for line_splits in splits.values() for frame in set(line_splits.frames))
    for line_splits in splits.values():
        reasons = tuple(dict.fromkeys(operator.reason for operator in line_splits.operators))
        yield CompileCause(
            rule=_choose_split_rule(line_splits.operators),
            reason=", ".join(reasons),
            lines=line_splits.lines,
            frames=tuple(dict.fromkeys(line_splits.frames)),
            count=len(line_splits.operators),
            gain_ns=_SKIPPED_GRAPH
            if skipped.issuperset(line_splits.frames)
            else predict_gain(
                costs,
                partial(_predict_merge_gain, tuple(dict.fromkeys(line_splits.frames)), shares),
            ),
            one_time_ns=None,
            details=tuple(
                dict.fromkeys(
                    operator.operator or operator.name
                    for operator in line_splits.operators
                    if operator.name
                )
            )[:8],
        )


def _find_split_lines(
    operator: SplitOperator, operators: Sequence[SplitOperator], frame: CompiledFrame | None
) -> tuple[UserLine, ...]:
    if operator.lines:
        return operator.lines
    same_reason = (
        candidate.lines
        for candidate in operators
        if candidate.reason == operator.reason and candidate.lines
    )
    other = next(same_reason, ())
    if other:
        return other
    line = find_first_cpu_use(frame) if _ON_CPU.search(operator.reason) else None
    line = line or find_first_call(frame, _build_call_pattern(operator))
    return get_frame_lines(frame) if line is None else (line,)


def _build_call_pattern(operator: SplitOperator) -> re.Pattern[str]:
    """Match statements of Dynamo's graph that may become ``operator``."""
    if _is_copy(operator):
        return DEVICE_CALLS
    if "unbacked" in operator.reason:
        return _UNBACKED_CALLS
    # aten.foo.default, mine::foo and torch.ops.mine.foo.default are all named foo.
    words = [word for word in re.split(r"[.:]+", operator.operator or "") if word]
    names = [word for word in words if word not in ("torch", "ops", "aten", "default")]
    return re.compile(rf"\b{re.escape(names[-1])}\b") if names else _NO_MATCH


def _is_copy(operator: SplitOperator) -> bool:
    return bool(_COPY.search(operator.operator or "") or _COPY.search(operator.reason))


def _is_cpu_work(operator: SplitOperator) -> bool:
    return bool(_ON_CPU.search(operator.reason)) and not _is_copy(operator)


def _add_unexplained_splits(
    splits: dict[str, _Split],
    compilation: Compilation,
    frames: dict[str, CompiledFrame],
    costs: StepCosts | None,
) -> None:
    explained = {split.frame for split in compilation.partitionings}
    cached = {graph.frame for graph in compilation.graphs if graph.cached}
    for call in costs.time.calls if costs else ():
        if call.frame is None or call.frame in explained or call.frame not in cached:
            continue
        if call.replays > call.graph_calls or (
            call.replays and _has_uncaptured_work(costs, call.frame)
        ):
            lines = get_frame_lines(frames.get(call.frame))
            line_text = f"{lines[0].text if lines else ''} {call.frame}"
            operator = SplitOperator("", UNKNOWN_SPLIT_REASON, None, lines)
            splits[line_text] = _Split(lines, [call.frame], [operator])


def _has_uncaptured_work(costs: StepCosts | None, frame: str) -> bool:
    return costs is not None and any(
        part.busy_ns for part in costs.select_parts((StepPart.COMPILED,), [frame])
    )


def _choose_split_rule(operators: Sequence[SplitOperator]) -> CompileRuleId:
    """Choose the rule; CPU work takes precedence over its copies."""
    if any(operator.reason == UNKNOWN_SPLIT_REASON for operator in operators):
        return CompileRuleId.UNEXPLAINED_SPLIT
    rules = [
        CompileRuleId.COPY_BETWEEN_DEVICES
        if _is_copy(operator)
        else find_first_rule(operator.reason, _SPLIT_RULES, CompileRuleId.UNSAFE_OPERATOR)
        for operator in operators
    ]
    others = [rule for rule in rules if rule is not CompileRuleId.COPY_BETWEEN_DEVICES]
    return Counter(others or rules).most_common(1)[0][0]


def _predict_merge_gain(
    frames: Sequence[str], shares: Mapping[str, int], costs: StepCosts
) -> float:
    pieces = costs.pieces
    return sum(
        costs.predict_gain_ns(merge_partitions(pieces, frame)) / shares[frame] for frame in frames
    )
