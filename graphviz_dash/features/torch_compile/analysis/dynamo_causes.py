"""Causes that Dynamo tells: lines at which it cannot go on, functions that it compiles again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from graphviz_dash.features.torch_compile.analysis.cause import CompileCause, first_rule
from graphviz_dash.features.torch_compile.analysis.inputs import frame_lines
from graphviz_dash.features.torch_compile.analysis.mended_step import compiled_whole, without_breaks
from graphviz_dash.features.torch_compile.analysis.savings import StepCosts, not_told, predicted
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
        re.compile(r"data.dependent|\.item\(\)|Tensor\.item|\btolist", re.I),
        CompileRuleId.VALUE_READ,
    ),
    (
        # torch 2.6 to 2.8 say it in the second way.
        re.compile(
            r"compiler\.disable|graph_break\(\)|_dynamo\.disable|function graph_break", re.I
        ),
        CompileRuleId.DISABLED_FUNCTION,
    ),
    (re.compile(r"`?\b(print|warn\w*|logging|logger)\b", re.I), CompileRuleId.PYTHON_SIDE_EFFECT),
)


def break_causes(compilation: Compilation, costs: StepCosts | None) -> Iterator[CompileCause]:
    """Graph breaks, those of one line together."""
    by_line: dict[str, list[GraphBreak]] = {}
    for graph_break in compilation.breaks:
        line_text = graph_break.lines[0].text if graph_break.lines else graph_break.reason
        by_line.setdefault(line_text, []).append(graph_break)
    rests = _rests(compilation)
    place_of = _places(compilation)
    called = {call.frame for call in costs.time.calls if call.frame} if costs else set()
    for together in by_line.values():
        own = [graph_break.frame for graph_break in together if graph_break.frame is not None]
        # Functions around the line are given up because of it: their reason is none of its own.
        first = next(
            (graph_break for graph_break in together if not graph_break.whole_frame), together[0]
        )
        reason = first.reason
        places = {place_of[graph_break] for graph_break in together}
        added = {rest for each in places for rest in rests.get(each, ())}
        # Functions between the outermost and the line are compiled by themselves because of it.
        added |= set(own[1:])
        # So are those that are called where the rest runs eagerly.
        called_there = _called_in(compilation, {*own, *added})
        added |= {
            frame
            for frame, caller in called_there.items()
            if _last_break(caller, place_of.values()) in places
        }
        added -= set(own[:1])
        inside = set(own) & called
        text = f"{reason} {first.explanation or ''}"
        whole = all(graph_break.whole_frame for graph_break in together)

        yield CompileCause(
            rule=first_rule(text, _BREAK_RULES, CompileRuleId.GRAPH_BREAK),
            reason=reason,
            lines=first.lines,
            frames=tuple(dict.fromkeys(own)),
            times=len(together),
            saves_ns=_saved_by_compiling(compilation, own, costs)
            if whole
            else predicted(costs, partial(_saved_by_one_graph, own[:1], inside, added)),
            once_ns=None,
            hints=first.hints,
            link=first.link,
        )


def _saved_by_one_graph(
    outermost: Sequence[str], inside: set[str], added: set[str], costs: StepCosts
) -> float:
    """What it would save if a function were one graph."""
    return costs.saved(without_breaks(costs.pieces, outermost, inside | added, added))


def _saved_by_compiling(
    compilation: Compilation, given_up: Sequence[str], costs: StepCosts | None
) -> float | Missing:
    """What it would save if a function that is given up were one graph: the functions that it
    calls, which Dynamo compiles one by one instead, are all in it, and the code between them."""
    parts = _called_in(compilation, given_up)
    if not parts:
        return not_told(
            "the whole function runs eagerly, and what compiling it would give is not known"
        )
    return predicted(costs, lambda own: own.saved(compiled_whole(own.pieces, parts)))


def _called_in(compilation: Compilation, functions: Collection[str]) -> dict[str, UserLine]:
    """The compilations that are called in those of ``functions``, each with the line that does."""
    begins = [frame.place for frame in compilation.frames if frame.id in functions and frame.place]
    return {
        frame.id: caller
        for frame in compilation.frames
        if not frame.resumes
        for caller in reversed(frame.callers)
        for begin in begins
        if (caller.file, caller.function) == (begin.file, begin.function)
        and caller.line >= begin.line
    }


class _Place(NamedTuple):
    """Where the code of a compilation breaks: its own line, of which what breaks may be called."""

    file: str
    function: str | None
    line: int


def _places(compilation: Compilation) -> dict[GraphBreak, _Place | None]:
    """The place of each break in the function that is compiled, for the innermost line may be in
    one that Dynamo had inlined; None where its lines are not told."""
    frames = {frame.id: frame for frame in compilation.frames}
    places: dict[GraphBreak, _Place | None] = {}
    for graph_break in compilation.breaks:
        line = _own_line(graph_break, frames.get(graph_break.frame or ""))
        own = None if line is None else _Place(line.file, line.function, line.line)
        places[graph_break] = own
    return places


def _own_line(graph_break: GraphBreak, frame: CompiledFrame | None) -> UserLine | None:
    """The line of a break in the function of its compilation: the outermost within that one's
    callers. Where it is not among the lines, the innermost."""
    own = None
    if frame is not None and frame.place is not None:
        # What resumes a function is called by the function itself.
        callers = {each.text for each in frame.callers[frame.resumes :]}
        for line in graph_break.lines:
            if line.text in callers:
                break
            if (line.file, line.function) == (frame.place.file, frame.function):
                own = line
    return own or next(iter(graph_break.lines), None)


def _last_break(caller: UserLine, places: Iterable[_Place | None]) -> _Place | None:
    """The break that the code at ``caller`` runs behind: the nearest above it, and where all are
    below, as in a loop, the last one."""
    own = [each for each in places if each and each[:2] == (caller.file, caller.function)]
    own.sort(key=lambda each: each.line)
    above = [each for each in own if each.line <= caller.line] or own
    return above[-1] if above else None


def _rests(compilation: Compilation) -> dict[_Place | None, list[str]]:
    """The compilations of rests of functions, by the line behind which they go on."""
    rests: dict[_Place | None, list[str]] = {}
    for frame in compilation.frames:
        if frame.resumes and frame.place is not None:
            behind = _Place(frame.place.file, frame.function, frame.place.line)
            rests.setdefault(behind, []).append(frame.id)
    return rests


def recompile_causes(
    compilation: Compilation, frames: dict[str, CompiledFrame]
) -> Iterator[CompileCause]:
    """Functions that were compiled again, each function once."""
    by_function: dict[str, list[Recompile]] = {}
    for again in compilation.recompiles:
        by_function.setdefault((again.frame or "").partition("/")[0], []).append(again)
    for together in by_function.values():
        own = [again.frame for again in together if again.frame is not None]
        first = frames.get(own[0]) if own else None
        lines = [line for again in together for line in again.lines]
        lines = lines or list(frame_lines(first))
        took = [frames[frame].compile_ns for frame in own if frame in frames]
        limit = any(again.limit for again in together)
        guards = [guard for again in together for guard in again.guards]
        yield CompileCause(
            rule=CompileRuleId.RECOMPILE_LIMIT if limit else CompileRuleId.RECOMPILING,
            reason=guards[0] if guards else "a guard failed",
            lines=tuple(dict.fromkeys(lines)),
            frames=tuple(dict.fromkeys(own)),
            times=len(together),
            saves_ns=not_told(
                "what compiling it would give is not known" if limit else "it is paid once"
            ),
            once_ns=sum(ns or 0 for ns in took) or None,
            details=tuple(dict.fromkeys(guards))[:8],
        )
