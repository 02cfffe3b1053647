"""Causes reported by Dynamo: graph breaks and recompilations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from graphviz_dash.features.torch_compile.analysis.cause import CompileCause, find_first_rule
from graphviz_dash.features.torch_compile.analysis.fixed_step import (
    merge_breaks,
    merge_compilations,
)
from graphviz_dash.features.torch_compile.analysis.inputs import get_frame_lines
from graphviz_dash.features.torch_compile.analysis.savings import (
    StepCosts,
    predict_gain,
    report_unavailable,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import (
    Compilation,
    CompiledFrame,
    GraphBreak,
    Recompile,
    UserLine,
)
from graphviz_dash.model.compile_rules import CompileRuleId

_BREAK_RULES: Final = (
    (
        re.compile(r"dynamic shape operator|dynamic output shape|output shape depends", re.I),
        CompileRuleId.SIZE_FROM_DATA,
    ),
    (
        re.compile(r"data.dependent|\.item\(\)|Tensor\.item|\btolist", re.I),
        CompileRuleId.VALUE_READ,
    ),
    (
        # torch 2.6 to 2.8 use the second wording.
        re.compile(
            r"compiler\.disable|graph_break\(\)|_dynamo\.disable|function graph_break", re.I
        ),
        CompileRuleId.DISABLED_FUNCTION,
    ),
    (re.compile(r"`?\b(print|warn\w*|logging|logger)\b", re.I), CompileRuleId.PYTHON_SIDE_EFFECT),
)


def find_break_causes(compilation: Compilation, costs: StepCosts | None) -> Iterator[CompileCause]:
    """Find graph breaks, grouped by line."""
    by_line: dict[str, list[GraphBreak]] = {}
    for graph_break in compilation.breaks:
        line_text = graph_break.lines[0].text if graph_break.lines else graph_break.reason
        by_line.setdefault(line_text, []).append(graph_break)
    resumed_frames = _group_resumed_frames(compilation)
    location_of = _find_break_locations(compilation)
    called_frames = {call.frame for call in costs.time.calls if call.frame} if costs else set()
    for line_breaks in by_line.values():
        break_frames = [
            graph_break.frame for graph_break in line_breaks if graph_break.frame is not None
        ]
        # Enclosing functions are skipped because of the break, so their own reason is irrelevant.
        first = next(
            (graph_break for graph_break in line_breaks if not graph_break.runs_eagerly),
            line_breaks[0],
        )
        reason = first.reason
        locations = {location_of[graph_break] for graph_break in line_breaks}
        added = {resumed for location in locations for resumed in resumed_frames.get(location, ())}
        # The break causes separate compilations of the functions between the outermost and the
        # line.
        added |= set(break_frames[1:])
        # The same applies to functions called from the code that runs eagerly.
        callees = _find_callees(compilation, {*break_frames, *added})
        added |= {
            frame
            for frame, caller in callees.items()
            if _find_preceding_break(caller, location_of.values()) in locations
        }
        added -= set(break_frames[:1])
        called_break_frames = set(break_frames) & called_frames
        text = f"{reason} {first.explanation or ''}"
        is_eager_frame = all(graph_break.runs_eagerly for graph_break in line_breaks)

        yield CompileCause(
            rule=find_first_rule(text, _BREAK_RULES, CompileRuleId.GRAPH_BREAK),
            reason=reason,
            lines=first.lines,
            frames=tuple(dict.fromkeys(break_frames)),
            count=len(line_breaks),
            gain_ns=_predict_compile_gain(compilation, break_frames, costs)
            if is_eager_frame
            else predict_gain(
                costs, partial(_predict_merge_gain, break_frames[:1], called_break_frames, added)
            ),
            one_time_ns=None,
            hints=first.hints,
            link=first.link,
        )


def _predict_merge_gain(
    outermost: Sequence[str], inside: set[str], added: set[str], costs: StepCosts
) -> float:
    return costs.predict_gain_ns(merge_breaks(costs.pieces, outermost, inside | added, added))


def _predict_compile_gain(
    compilation: Compilation, skipped: Sequence[str], costs: StepCosts | None
) -> float | Missing:
    """Predict the gain from compiling a skipped function into one graph.

    It covers callees, which Dynamo compiles separately, and the code between them.
    """
    parts = _find_callees(compilation, skipped)
    if not parts:
        return report_unavailable(
            "the whole function runs eagerly, so the gain from compiling it is unknown"
        )
    return predict_gain(
        costs,
        lambda known_costs: known_costs.predict_gain_ns(
            merge_compilations(known_costs.pieces, parts)
        ),
    )


def _find_callees(compilation: Compilation, functions: Collection[str]) -> dict[str, UserLine]:
    """Find the compilations called from ``functions``, with the calling line."""
    starts = [
        frame.location for frame in compilation.frames if frame.id in functions and frame.location
    ]
    return {
        frame.id: caller
        for frame in compilation.frames
        if not frame.is_continuation
        for caller in reversed(frame.callers)
        for start in starts
        if (caller.file, caller.function) == (start.file, start.function)
        and caller.line >= start.line
    }


class _BreakLocation(NamedTuple):
    file: str
    function: str | None
    line: int


def _find_break_locations(compilation: Compilation) -> dict[GraphBreak, _BreakLocation | None]:
    """Locate each break in its compiled function; None without recorded lines.

    The innermost line may be in an inlined function.
    """
    frames = {frame.id: frame for frame in compilation.frames}
    locations: dict[GraphBreak, _BreakLocation | None] = {}
    for graph_break in compilation.breaks:
        line = _find_break_line(graph_break, frames.get(graph_break.frame or ""))
        location = None if line is None else _BreakLocation(line.file, line.function, line.line)
        locations[graph_break] = location
    return locations


def _find_break_line(graph_break: GraphBreak, frame: CompiledFrame | None) -> UserLine | None:
    """Prefer a line within the compiled function to the innermost line."""
    break_line = None
    if frame is not None and frame.location is not None:
        # A resume function is called by the function itself.
        callers = {caller_line.text for caller_line in frame.callers[frame.is_continuation :]}
        for line in graph_break.lines:
            if line.text in callers:
                break
            if (line.file, line.function) == (frame.location.file, frame.function):
                break_line = line
    return break_line or next(iter(graph_break.lines), None)


def _find_preceding_break(
    caller: UserLine, locations: Iterable[_BreakLocation | None]
) -> _BreakLocation | None:
    """Find the break before the code at ``caller``; the last one if none is above, as in a loop."""
    candidates = [
        place for place in locations if place and place[:2] == (caller.file, caller.function)
    ]
    candidates.sort(key=lambda place: place.line)
    above = [place for place in candidates if place.line <= caller.line] or candidates
    return above[-1] if above else None


def _group_resumed_frames(compilation: Compilation) -> dict[_BreakLocation | None, list[str]]:
    frames_by_break: dict[_BreakLocation | None, list[str]] = {}
    for frame in compilation.frames:
        if frame.is_continuation and frame.location is not None:
            break_line = _BreakLocation(frame.location.file, frame.function, frame.location.line)
            frames_by_break.setdefault(break_line, []).append(frame.id)
    return frames_by_break


def find_recompile_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame]
) -> Iterator[CompileCause]:
    """Find recompilations, one cause per function."""
    by_function: dict[str, list[Recompile]] = {}
    for recompile in compilation.recompiles:
        by_function.setdefault((recompile.frame or "").partition("/")[0], []).append(recompile)
    for recompiles in by_function.values():
        recompiled_frames = [
            recompile.frame for recompile in recompiles if recompile.frame is not None
        ]
        first = frames.get(recompiled_frames[0]) if recompiled_frames else None
        lines = [line for recompile in recompiles for line in recompile.lines]
        lines = lines or list(get_frame_lines(first))
        compile_times = [frames[frame].compile_ns for frame in recompiled_frames if frame in frames]
        limit = any(recompile.limit_reached for recompile in recompiles)
        guards = [guard for recompile in recompiles for guard in recompile.guards]
        yield CompileCause(
            rule=CompileRuleId.RECOMPILE_LIMIT if limit else CompileRuleId.RECOMPILING,
            reason=guards[0] if guards else "a guard failed",
            lines=tuple(dict.fromkeys(lines)),
            frames=tuple(dict.fromkeys(recompiled_frames)),
            count=len(recompiles),
            gain_ns=report_unavailable(
                "the gain from compiling it is unknown" if limit else "it is a one-time cost"
            ),
            one_time_ns=sum(ns or 0 for ns in compile_times) or None,
            details=tuple(dict.fromkeys(guards))[:8],
        )
