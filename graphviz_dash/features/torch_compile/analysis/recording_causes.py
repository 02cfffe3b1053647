"""Causes that the cudagraph trees tell: what is not recorded, what is recorded again, what is
copied before replays, and what they warn of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause, first_rule
from graphviz_dash.features.torch_compile.analysis.inputs import (
    DEVICE_CALLS,
    call_lines,
    first_call,
    first_cpu_use,
    first_write,
    frame_lines,
    input_origin,
)
from graphviz_dash.features.torch_compile.analysis.mended_step import recorded, without_copies
from graphviz_dash.features.torch_compile.analysis.savings import (
    StepCosts,
    not_told,
    predicted,
)
from graphviz_dash.model.compilation import (
    Compilation,
    CompiledFrame,
    CompileWarning,
    GraphSkip,
    TreeNode,
    UserLine,
)
from graphviz_dash.model.compile_rules import CompileRuleId

COPIES_TOLD: Final = 0.1
"""The part of a step from which copying inputs is a cause: every graph copies some."""

CALLS_TOLD: Final = 3
"""Calls of one function on a path from which it is a cause: a model may be meant to run twice."""

CALLS_IN_A_STEP: Final = 2.0
"""How many times as many as a step of the program has they are then: layers may share their code,
so that a step calls it for each of them."""


_SKIP_RULES: Final = (
    (re.compile(r"mutated inputs|input storage mutation"), CompileRuleId.MUTATED_INPUT),
    (re.compile(r"re-recording limit"), CompileRuleId.MOVED_INPUT),
    (re.compile(r"cpu device"), CompileRuleId.CPU_WORK),
    (re.compile(r"dynamic shape|symint", re.I), CompileRuleId.CHANGING_SIZES),
)


_WARNING_RULES: Final = (
    (re.compile(r"dynamic shapes"), CompileRuleId.CHANGING_SIZES),
    (re.compile(r"backward|fast path"), CompileRuleId.PENDING_BACKWARD),
)


def skip_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """Graphs of which nothing is recorded."""
    by_reason: dict[tuple[str, str], list[GraphSkip]] = {}
    for skip in compilation.skips:
        lines = skip.lines or _lines_of_skip(skip, compilation, frames.get(skip.frame or ""))
        line_text = lines[0].text if lines else ""
        placed = msgspec.structs.replace(skip, lines=lines)
        by_reason.setdefault((line_text, skip.reason), []).append(placed)
    for (_, reason), together in by_reason.items():
        own = tuple(dict.fromkeys(skip.frame for skip in together if skip.frame is not None))
        yield CompileCause(
            rule=first_rule(reason, _SKIP_RULES, CompileRuleId.NOT_RECORDED),
            reason=reason,
            lines=together[0].lines,
            frames=own,
            times=len(together),
            saves_ns=predicted(costs, partial(_saved_by_recording, own)),
            once_ns=None,
        )


def _saved_by_recording(frames: Collection[str], costs: StepCosts) -> float:
    return costs.saved(recorded(costs.pieces, frames))


def _lines_of_skip(
    skip: GraphSkip, compilation: Compilation, frame: CompiledFrame | None
) -> tuple[UserLine, ...]:
    """The lines of a skip without any: where Dynamo's graph writes to an input, or copies between
    devices; else where the function begins."""
    rule = first_rule(skip.reason, _SKIP_RULES, CompileRuleId.NOT_RECORDED)
    line = None
    if rule is CompileRuleId.MUTATED_INPUT:
        written = [
            given.name
            for function in compilation.functions
            if function.frame == skip.frame
            for given in function.inputs
            if given.mutated and not given.static
        ]
        line = first_write(frame, written)
    elif "device" in skip.reason:
        line = first_cpu_use(frame) or first_call(frame, DEVICE_CALLS)
    return frame_lines(frame) if line is None else (line,)


def rerecording_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame]
) -> Iterator[CompileCause]:
    """Functions that were recorded again, by the inputs that moved."""
    counts: dict[tuple[str | None, str, tuple[str, ...]], int] = {}
    lines: dict[tuple[str | None, str, tuple[str, ...]], tuple[UserLine, ...]] = {}
    for again in compilation.rerecordings:
        origins = [
            input_origin(frames.get(again.frame or ""), moved.name, moved.line)
            for moved in again.moved
        ]
        key = (again.frame, again.reason, tuple(origin.name for origin in origins))
        counts[key] = counts.get(key, 0) + 1
        lines[key] = tuple(dict.fromkeys(o.line for o in origins if o.line is not None))
    for key, times in counts.items():
        frame, reason, names = key
        whole = frames.get(frame or "")
        # Where no input moved, outputs of the step before still live: the call begins the next.
        placed = lines[key] or (frame_lines(whole) if names else call_lines(whole))
        yield CompileCause(
            rule=CompileRuleId.MOVED_INPUT if names else CompileRuleId.PENDING_BACKWARD,
            reason=reason,
            lines=placed,
            frames=(frame,) if frame is not None else (),
            times=times,
            saves_ns=not_told("it is paid at each recording, not in each step"),
            once_ns=None,
            details=names,
        )


def repeated_call_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """Functions that torch takes to be called more often in one step than a step of the program
    calls them: each call has a graph of its own, one behind the other on a path of the tree."""
    if costs is None:
        return
    replays: dict[str, float] = {}
    for call in costs.time.calls:
        if call.frame is not None:
            replays[call.frame] = replays.get(call.frame, 0.0) + call.replays
    calls: dict[int, Counter[int]] = {}
    most: Counter[int] = Counter()
    for node in sorted(compilation.nodes, key=lambda node: node.id):
        before = calls.get(node.parent, Counter()) if node.parent is not None else Counter[int]()
        calls[node.id] = before + Counter((node.function,))
        most[node.function] = max(most[node.function], calls[node.id][node.function])
    for function in compilation.functions:
        times = most[function.id]
        if times < max(CALLS_TOLD, CALLS_IN_A_STEP * replays.get(function.frame or "", 0.0)):
            continue
        yield CompileCause(
            rule=CompileRuleId.CALLS_IN_ONE_STEP,
            reason=f"{times} calls are one step, each with a graph of its own",
            lines=call_lines(frames.get(function.frame or "")),
            frames=(function.frame,) if function.frame is not None else (),
            times=times,
            saves_ns=not_told("it is paid at each recording, and in memory"),
            once_ns=None,
        )


def copy_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """Inputs that are copied before replays, where that is a large part of the step."""
    if costs is None:
        return
    functions = {function.id: function for function in compilation.functions}
    by_frame: dict[str, list[TreeNode]] = {}
    for node in compilation.nodes:
        frame = functions[node.function].frame
        if node.copied and frame is not None:
            by_frame.setdefault(frame, []).append(node)
    for frame, nodes in by_frame.items():
        copies = list(costs.of((StepPart.COPIES,), [frame]))
        if sum(part.busy_ns for part in copies) < COPIES_TOLD * costs.step_ns:
            continue
        largest = sorted(
            {
                (copied.bytes or 0, copied.name): copied for node in nodes for copied in node.copied
            }.items(),
            key=lambda item: -item[0][0],
        )
        origins = [
            (input_origin(frames.get(frame), copied.name, copied.line), copied.bytes or 0)
            for _, copied in largest
        ]
        part = _large_part([size for _, size in origins])
        yield CompileCause(
            rule=CompileRuleId.COPIED_INPUTS,
            reason=f"{len(largest)} inputs are copied before each replay",
            lines=tuple(dict.fromkeys(o.line for o, _ in origins if o.line is not None))
            or frame_lines(frames.get(frame)),
            frames=(frame,),
            times=len(nodes),
            saves_ns=costs.saved(without_copies(costs.pieces, frame, part)),
            once_ns=None,
            details=tuple(f"{origin.name}: {size:,} B" for origin, size in origins)[:8],
        )


def _large_part(sizes: Sequence[int]) -> float:
    """The part of the copied bytes in inputs that have a tenth of them or more: the others may as
    well be copied."""
    total = sum(sizes)
    return sum(size for size in sizes if size * 10 >= total) / total if total else 1.0


def warning_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """What the cudagraph trees warned of, those of one rule together. What is to be mended is the
    call: the step that it begins, the sizes that it gives."""
    by_rule: dict[CompileRuleId, list[CompileWarning]] = {}
    for warning in compilation.warnings:
        rule = first_rule(warning.text, _WARNING_RULES, CompileRuleId.NOT_RECORDED)
        by_rule.setdefault(rule, []).append(warning)
    for rule, together in by_rule.items():
        if rule is CompileRuleId.PENDING_BACKWARD:
            own = _never_replayed(compilation, costs)
            saves = predicted(costs, partial(_saved_by_recording, own))
        else:
            # It names no function: the one that is recorded most often, with the most sizes.
            recorded = Counter(each.frame for each in compilation.functions if each.frame)
            own = [frame for frame, _ in recorded.most_common(1)]
            saves = not_told("it is paid once for each size")
        calls = [warning.lines for warning in together if warning.lines]
        calls += [lines for frame in own if (lines := call_lines(frames.get(frame)))]
        places = dict.fromkeys(lines[0].text for lines in calls)
        yield CompileCause(
            rule=rule,
            reason=together[0].text,
            lines=calls[0] if calls else (),
            frames=tuple(own),
            times=sum(warning.times for warning in together),
            saves_ns=saves,
            once_ns=None,
            details=tuple(f"called at {caller}" for caller in places)[1:8],
        )


def _never_replayed(compilation: Compilation, costs: StepCosts | None) -> list[str]:
    """The compilations that are launched kernel by kernel though they are recorded."""
    skipped = {skip.frame for skip in compilation.skips}
    return [
        call.frame
        for call in (costs.time.calls if costs else ())
        if call.frame and call.launches and not call.replays and call.frame not in skipped
    ]
