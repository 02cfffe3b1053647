"""Causes reported by the cudagraph trees: skips, re-recordings, input copies and warnings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause, find_first_rule
from graphviz_dash.features.torch_compile.analysis.fixed_step import (
    convert_to_graphs,
    remove_copies,
)
from graphviz_dash.features.torch_compile.analysis.inputs import (
    DEVICE_CALLS,
    find_first_call,
    find_first_cpu_use,
    find_first_write,
    find_input_origin,
    get_call_lines,
    get_frame_lines,
)
from graphviz_dash.features.torch_compile.analysis.savings import (
    StepCosts,
    predict_gain,
    report_unavailable,
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
from graphviz_dash.units import pluralize

MIN_COPY_SHARE: Final = 0.1
"""Share of a step above which input copies are a cause; every graph copies some."""

MIN_REPEATED_CALLS: Final = 3
"""Calls of one function on a tree path; a model may run twice by design."""

MIN_CALL_RATIO: Final = 2.0
"""Ratio of these calls to calls per program step; layers may share code."""


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


def find_skip_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """Find graphs that are not recorded."""
    by_reason: dict[tuple[str, str], list[GraphSkip]] = {}
    for skip in compilation.skips:
        lines = skip.lines or _find_skip_lines(skip, compilation, frames.get(skip.frame or ""))
        line_text = lines[0].text if lines else ""
        located = msgspec.structs.replace(skip, lines=lines)
        by_reason.setdefault((line_text, skip.reason), []).append(located)
    for (_, reason), group in by_reason.items():
        skipped_frames = tuple(
            dict.fromkeys(skip.frame for skip in group if skip.frame is not None)
        )
        yield CompileCause(
            rule=find_first_rule(reason, _SKIP_RULES, CompileRuleId.NOT_RECORDED),
            reason=reason,
            lines=group[0].lines,
            frames=skipped_frames,
            count=len(group),
            gain_ns=predict_gain(costs, partial(_predict_recording_gain, skipped_frames)),
            one_time_ns=None,
        )


def _predict_recording_gain(frames: Collection[str], costs: StepCosts) -> float:
    return costs.predict_gain_ns(convert_to_graphs(costs.pieces, frames))


def _find_skip_lines(
    skip: GraphSkip, compilation: Compilation, frame: CompiledFrame | None
) -> tuple[UserLine, ...]:
    """Use the write to an input or the device copy, else the start of the function."""
    rule = find_first_rule(skip.reason, _SKIP_RULES, CompileRuleId.NOT_RECORDED)
    line = None
    if rule is CompileRuleId.MUTATED_INPUT:
        written = [
            graph_input.name
            for function in compilation.functions
            if function.frame == skip.frame
            for graph_input in function.inputs
            if graph_input.mutated and not graph_input.static
        ]
        line = find_first_write(frame, written)
    elif "device" in skip.reason:
        line = find_first_cpu_use(frame) or find_first_call(frame, DEVICE_CALLS)
    return get_frame_lines(frame) if line is None else (line,)


def find_rerecording_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame]
) -> Iterator[CompileCause]:
    """Find re-recorded functions by the inputs that moved."""
    counts: dict[tuple[str | None, str, tuple[str, ...]], int] = {}
    lines: dict[tuple[str | None, str, tuple[str, ...]], tuple[UserLine, ...]] = {}
    for rerecording in compilation.rerecordings:
        origins = [
            find_input_origin(frames.get(rerecording.frame or ""), moved.name, moved.line)
            for moved in rerecording.moved
        ]
        key = (rerecording.frame, rerecording.reason, tuple(origin.name for origin in origins))
        counts[key] = counts.get(key, 0) + 1
        lines[key] = tuple(dict.fromkeys(o.line for o in origins if o.line is not None))
    for key, times in counts.items():
        frame, reason, names = key
        compiled_frame = frames.get(frame or "")
        # If no input moved, outputs of the previous step are still alive: the call starts the next
        # step.
        located = lines[key] or (
            get_frame_lines(compiled_frame) if names else get_call_lines(compiled_frame)
        )
        yield CompileCause(
            rule=CompileRuleId.MOVED_INPUT if names else CompileRuleId.PENDING_BACKWARD,
            reason=reason,
            lines=located,
            frames=(frame,) if frame is not None else (),
            count=times,
            gain_ns=report_unavailable("it is a cost per recording, not per step"),
            one_time_ns=None,
            details=names,
        )


def find_repeated_call_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """Find functions with more calls per recorded than per program step."""
    if costs is None:
        return
    replays: dict[str, float] = {}
    for call in costs.time.calls:
        if call.frame is not None:
            replays[call.frame] = replays.get(call.frame, 0.0) + call.replays
    calls: dict[int, Counter[int]] = {}
    max_calls: Counter[int] = Counter()
    for node in sorted(compilation.nodes, key=lambda node: node.id):
        parent_calls = (
            calls.get(node.parent, Counter()) if node.parent is not None else Counter[int]()
        )
        calls[node.id] = parent_calls + Counter((node.function,))
        max_calls[node.function] = max(max_calls[node.function], calls[node.id][node.function])
    for function in compilation.functions:
        times = max_calls[function.id]
        if times < max(MIN_REPEATED_CALLS, MIN_CALL_RATIO * replays.get(function.frame or "", 0.0)):
            continue
        yield CompileCause(
            rule=CompileRuleId.CALLS_IN_ONE_STEP,
            reason=f"{times} calls in one step, each with a separate graph",
            lines=get_call_lines(frames.get(function.frame or "")),
            frames=(function.frame,) if function.frame is not None else (),
            count=times,
            gain_ns=report_unavailable("it costs time per recording, and memory"),
            one_time_ns=None,
        )


def find_copy_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """Find input copies that are a large part of the step."""
    if costs is None:
        return
    functions = {function.id: function for function in compilation.functions}
    by_frame: dict[str, list[TreeNode]] = {}
    for node in compilation.nodes:
        frame = functions[node.function].frame
        if node.copied and frame is not None:
            by_frame.setdefault(frame, []).append(node)
    for frame, nodes in by_frame.items():
        copies = list(costs.select_parts((StepPart.COPIES,), [frame]))
        if sum(copied_share.busy_ns for copied_share in copies) < MIN_COPY_SHARE * costs.step_ns:
            continue
        largest = sorted(
            {
                (copied.bytes or 0, copied.name): copied for node in nodes for copied in node.copied
            }.items(),
            key=lambda item: -item[0][0],
        )
        origins = [
            (find_input_origin(frames.get(frame), copied.name, copied.line), copied.bytes or 0)
            for _, copied in largest
        ]
        copied_share = _compute_large_share([size for _, size in origins])
        yield CompileCause(
            rule=CompileRuleId.COPIED_INPUTS,
            reason=f"{len(largest)} inputs are copied before each replay",
            lines=tuple(dict.fromkeys(o.line for o, _ in origins if o.line is not None))
            or get_frame_lines(frames.get(frame)),
            frames=(frame,),
            count=len(nodes),
            gain_ns=costs.predict_gain_ns(remove_copies(costs.pieces, frame, copied_share)),
            one_time_ns=None,
            details=tuple(f"{origin.name}: {size:,} B" for origin, size in origins)[:8],
        )


def _compute_large_share(sizes: Sequence[int]) -> float:
    """Compute the byte share of inputs with at least a tenth of all copied bytes."""
    total = sum(sizes)
    return sum(size for size in sizes if size * 10 >= total) / total if total else 1.0


def find_warning_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: StepCosts | None
) -> Iterator[CompileCause]:
    """Find warnings by rule; the caller of the function needs the fix."""
    by_rule: dict[CompileRuleId, list[CompileWarning]] = {}
    for warning in compilation.warnings:
        rule = find_first_rule(warning.text, _WARNING_RULES, CompileRuleId.NOT_RECORDED)
        by_rule.setdefault(rule, []).append(warning)
    for rule, group in by_rule.items():
        reason = group[0].text
        if rule is CompileRuleId.PENDING_BACKWARD:
            warned_frames = _find_never_replayed(compilation, costs)
            gain_ns = predict_gain(costs, partial(_predict_recording_gain, warned_frames))
        else:
            # The warning names no function: use the one with the most recorded sizes.
            sizes = Counter(function.frame for function in compilation.functions if function.frame)
            warned_frames = [frame for frame, _ in sizes.most_common(1)]
            is_recorded = any(function.recordings for function in compilation.functions)
            gain_ns = report_unavailable(
                "it is a one-time cost per size"
                if is_recorded
                else "no size was recorded, so each step is a warm-up"
            )
            if sizes and not is_recorded and rule is CompileRuleId.CHANGING_SIZES:
                count = pluralize(sizes[warned_frames[0]], "size")
                reason = f"{count}, none recorded: each new size only warms up"
        calls = [warning.lines for warning in group if warning.lines]
        calls += [lines for frame in warned_frames if (lines := get_call_lines(frames.get(frame)))]
        places = dict.fromkeys(lines[0].text for lines in calls)
        yield CompileCause(
            rule=rule,
            reason=reason,
            lines=calls[0] if calls else (),
            frames=tuple(warned_frames),
            count=sum(warning.count for warning in group),
            gain_ns=gain_ns,
            one_time_ns=None,
            details=tuple(f"called at {caller}" for caller in places)[1:8],
        )


def _find_never_replayed(compilation: Compilation, costs: StepCosts | None) -> list[str]:
    skipped = {skip.frame for skip in compilation.skips}
    return [
        call.frame
        for call in (costs.time.calls if costs else ())
        if call.frame and call.launches and not call.replays and call.frame not in skipped
    ]
