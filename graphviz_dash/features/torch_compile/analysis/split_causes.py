"""Causes that Inductor tells: operators at which it splits a graph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause, first_rule
from graphviz_dash.features.torch_compile.analysis.inputs import (
    DEVICE_CALLS,
    first_call,
    first_cpu_use,
    frame_lines,
)
from graphviz_dash.features.torch_compile.analysis.mended_step import without_splits
from graphviz_dash.features.torch_compile.analysis.savings import StepCosts, not_told, predicted
from graphviz_dash.model.compilation import Compilation, CompiledFrame, SplitOperator, UserLine
from graphviz_dash.model.compile_rules import CompileRuleId

UNTOLD: Final = "the graph came out of Inductor's cache, which does not say why it is split"
"""The reason of a split that only the trace shows."""


_BEHIND_A_SKIP: Final = not_told("the graph is not recorded at all: mend that first")
_ON_CPU: Final = re.compile(r"\bcpu\b|DeviceCopy")


_COPY: Final = re.compile(r"DeviceCopy|device_put|_to_copy")


_UNBACKED_CALLS: Final = re.compile(r"nonzero|\bunique|masked_select|\.item\(|\.tolist\(")


_NEVER: Final = re.compile(r"(?!)")


_SPLIT_RULES: Final = (
    (_ON_CPU, CompileRuleId.CPU_WORK),
    (re.compile(r"unbacked|dynamic"), CompileRuleId.SIZE_FROM_DATA),
)


class _Split(Struct):
    """What is split at one line."""

    lines: tuple[UserLine, ...]
    frames: list[str]
    operators: list[SplitOperator]


def split_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """Operators at which graphs are split, those of one line together."""
    splits: dict[str, _Split] = {}
    for split in compilation.partitionings:
        own = split.frame or ""
        operators = [each for partition in split.partitions for each in partition.operators]
        # Copies to and from the CPU come with the work that is done there.
        on_cpu = [each for each in operators if _is_cpu_work(each)]
        cpu_lines = _line_of_split(on_cpu[0], operators, frames.get(own)) if on_cpu else ()
        for operator in operators:
            lines = operator.lines or _line_of_split(operator, operators, frames.get(own))
            if cpu_lines and _is_copy(operator):
                lines = cpu_lines
            line_text = lines[0].text if lines else own
            at = splits.setdefault(line_text, _Split(lines, [], []))
            at.frames.append(own)
            at.operators.append(operator)
    _add_untold(splits, compilation, frames, costs)
    skipped = {skip.frame for skip in compilation.skips}
    shares = Counter(frame for at in splits.values() for frame in set(at.frames))
    for at in splits.values():
        reasons = tuple(dict.fromkeys(operator.reason for operator in at.operators))
        yield CompileCause(
            rule=_rule_of_split(at.operators),
            reason=", ".join(reasons),
            lines=at.lines,
            frames=tuple(dict.fromkeys(at.frames)),
            times=len(at.operators),
            saves_ns=_BEHIND_A_SKIP
            if skipped.issuperset(at.frames)
            else predicted(
                costs, partial(_saved_by_joining, tuple(dict.fromkeys(at.frames)), shares)
            ),
            once_ns=None,
            details=tuple(
                dict.fromkeys(
                    operator.operator or operator.name for operator in at.operators if operator.name
                )
            )[:8],
        )


def _line_of_split(
    operator: SplitOperator, operators: Sequence[SplitOperator], frame: CompiledFrame | None
) -> tuple[UserLine, ...]:
    """The lines of an operator that Inductor made itself (it fuses, and it copies inputs): those of
    another of the same reason, else of the input on the CPU, else where the function begins."""
    if operator.lines:
        return operator.lines
    same = (each.lines for each in operators if each.reason == operator.reason and each.lines)
    other = next(same, ())
    if other:
        return other
    line = first_cpu_use(frame) if _ON_CPU.search(operator.reason) else None
    line = line or first_call(frame, _calls_of(operator))
    return frame_lines(frame) if line is None else (line,)


def _calls_of(operator: SplitOperator) -> re.Pattern[str]:
    """How a statement of Dynamo's graph looks that may become ``operator``."""
    if _is_copy(operator):
        return DEVICE_CALLS
    if "unbacked" in operator.reason:
        return _UNBACKED_CALLS
    # aten.foo.default, mine::foo and torch.ops.mine.foo.default are called foo.
    words = [word for word in re.split(r"[.:]+", operator.operator or "") if word]
    names = [word for word in words if word not in ("torch", "ops", "aten", "default")]
    return re.compile(rf"\b{re.escape(names[-1])}\b") if names else _NEVER


def _is_copy(operator: SplitOperator) -> bool:
    """Whether an operator copies between devices."""
    return bool(_COPY.search(operator.operator or "") or _COPY.search(operator.reason))


def _is_cpu_work(operator: SplitOperator) -> bool:
    """Whether an operator runs on the CPU, and does not only copy."""
    return bool(_ON_CPU.search(operator.reason)) and not _is_copy(operator)


def _add_untold(
    splits: dict[str, _Split],
    compilation: Compilation,
    frames: dict[str, CompiledFrame],
    costs: StepCosts | None,
) -> None:
    """Adds splits that only the trace shows: of a graph that came out of Inductor's cache nothing
    says why it was split."""
    explained = {split.frame for split in compilation.partitionings}
    cached = {graph.frame for graph in compilation.graphs if graph.cached}
    for call in costs.time.calls if costs else ():
        if call.frame is None or call.frame in explained or call.frame not in cached:
            continue
        if call.replays > call.calls or (call.replays and _launches_between(costs, call.frame)):
            lines = frame_lines(frames.get(call.frame))
            line_text = f"{lines[0].text if lines else ''} {call.frame}"
            operator = SplitOperator("", UNTOLD, None, lines)
            splits[line_text] = _Split(lines, [call.frame], [operator])


def _launches_between(costs: StepCosts | None, frame: str) -> bool:
    """Whether a compiled graph launches work outside its CUDA graphs."""
    return costs is not None and any(
        part.busy_ns for part in costs.of((StepPart.COMPILED,), [frame])
    )


def _rule_of_split(operators: Sequence[SplitOperator]) -> CompileRuleId:
    """Work of the CPU before copies to and from it: these come with it."""
    if any(operator.reason == UNTOLD for operator in operators):
        return CompileRuleId.SPLIT_UNTOLD
    rules = [
        CompileRuleId.COPY_BETWEEN_DEVICES
        if _is_copy(operator)
        else first_rule(operator.reason, _SPLIT_RULES, CompileRuleId.UNSAFE_OPERATOR)
        for operator in operators
    ]
    others = [rule for rule in rules if rule is not CompileRuleId.COPY_BETWEEN_DEVICES]
    return Counter(others or rules).most_common(1)[0][0]


def _saved_by_joining(frames: Sequence[str], shares: Mapping[str, int], costs: StepCosts) -> float:
    """What it would save if the parts of split graphs were one, where each of the lines at which a
    graph is split has an equal share."""
    pieces = costs.pieces
    return sum(costs.saved(without_splits(pieces, frame)) / shares[frame] for frame in frames)
