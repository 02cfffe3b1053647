"""Why a compiled step is not one replay: what broke, split, skipped or copied, each with its line
and with what mending it would save.

Predicted savings. Mending a break, a split or a skip takes away the time in which the GPU waits for
the CPU there (code between graphs, guards, wrappers and launches of the graphs that it adds); the
GPU's own work stays. Inputs that are no longer copied save the copying as a whole. These times are
the parts of :mod:`graphviz_dash.analysis.compiled.step_time` in a clean step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from graphviz_dash.analysis.compiled.inputs import (
    call_lines,
    first_call,
    first_cpu_use,
    first_write,
    frame_lines,
    input_origin,
)
from graphviz_dash.analysis.compiled.step_time import PartTime, StepPart, StepTime
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compilation import (
    Compilation,
    CompiledFrame,
    GraphBreak,
    GraphSkip,
    Recompile,
    SplitOperator,
    TreeNode,
    UserLine,
)
from graphviz_dash.model.compile_rules import CompileRuleId

LEAST_TOLD: Final = 0.005
"""The part of a step below which a saving that is known is no cause."""

COPIES_TOLD: Final = 0.1
"""The part of a step from which copying inputs is a cause: every graph copies some."""

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
UNTOLD: Final = "the graph came out of Inductor's cache, which does not say why it is split"
"""The reason of a split that only the trace shows."""

_ON_CPU: Final = re.compile(r"\bcpu\b|DeviceCopy")
_COPY: Final = re.compile(r"DeviceCopy|device_put|_to_copy")
_DEVICE_CALLS: Final = re.compile(r"\.(?:cpu|cuda|to)\(|\bdevice ?=")
_UNBACKED_CALLS: Final = re.compile(r"nonzero|\bunique|masked_select|\.item\(|\.tolist\(")
_NEVER: Final = re.compile(r"(?!)")
_SPLIT_RULES: Final = (
    (_ON_CPU, CompileRuleId.CPU_WORK),
    (re.compile(r"unbacked|dynamic"), CompileRuleId.SIZE_FROM_DATA),
)
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
_ADDED: Final = (StepPart.GUARDS, StepPart.DISPATCH, StepPart.LAUNCH, StepPart.COPIES)
"""The parts of a graph that is there only because of a break: idle time that goes with it."""


@dataclass(frozen=True)
class CompileCause:
    """One place that keeps a compiled step from being one replay."""

    rule: CompileRuleId
    """What it breaks, which says what to write instead."""
    reason: str
    """What torch says of it."""
    lines: tuple[UserLine, ...]
    """The program's lines, innermost first; empty where none is known."""
    frames: tuple[str, ...]
    """The compilations that it concerns."""
    times: int
    """How often it came."""
    saves_ns: float | Missing
    """What mending it would save in each step, in ns of a clean step."""
    once_ns: int | None
    """What it cost once, in ns: compilations that it made; None where that is not told."""
    details: tuple[str, ...] = ()
    """Guards that failed, operators, inputs with their sizes."""
    hints: tuple[str, ...] = ()
    """What torch suggests."""
    link: str | None = None
    """Where torch's documentation has more."""


@dataclass(frozen=True)
class _Costs:
    """What parts of compilations cost in a clean step."""

    time: StepTime
    step_ns: float

    def of(self, parts: Iterable[StepPart], frames: Iterable[str | None]) -> Iterator[PartTime]:
        """The parts of some compilations."""
        wanted, inside = set(parts), set(frames)
        return (part for part in self.time.parts if part.part in wanted and part.frame in inside)

    def idle(self, parts: Iterable[StepPart], frames: Iterable[str | None]) -> float:
        """Their idle time in a clean step, in ns."""
        scale = self.time.scale(self.step_ns)
        return sum(part.idle_ns for part in self.of(parts, frames)) * scale

    def whole(self, parts: Iterable[StepPart], frames: Iterable[str | None]) -> float:
        """All of their time in a clean step, in ns."""
        return sum(self.time.clean(part, self.step_ns) for part in self.of(parts, frames))

    def launches_of_one_graph(self) -> float:
        """What dispatching and launching one graph costs: the mean of those that were."""
        graphs = sum(call.replays for call in self.time.calls)
        frames = [call.frame for call in self.time.calls if call.replays]
        parts = (StepPart.DISPATCH, StepPart.LAUNCH, StepPart.COPIES)
        return self.idle(parts, frames) / graphs if graphs else 0.0


def compile_causes(
    compilation: Compilation, time: StepTime | Missing, step_ns: float | Missing
) -> tuple[CompileCause, ...]:
    """The causes that ``compilation`` tells, the one that saves most first.

    Args:
        compilation: what torch.compile did.
        time: where the time of its traced steps goes.
        step_ns: the time of a clean step, in ns.
    """
    costs = None
    if not isinstance(time, Missing) and not isinstance(step_ns, Missing):
        costs = _Costs(time, step_ns)
    frames = {frame.id: frame for frame in compilation.frames}
    candidates = [
        *_breaks(compilation, costs),
        *_recompiles(compilation, frames),
        *_splits(compilation, frames, costs),
        *_skips(compilation, frames, costs),
        *_rerecordings(compilation, frames),
        *_copies(compilation, frames, costs),
        *_warnings(compilation, frames, costs),
    ]
    causes = [cause for cause in candidates if not _is_negligible(cause, step_ns)]
    return tuple(sorted(causes, key=_order))


def _is_negligible(cause: CompileCause, step_ns: float | Missing) -> bool:
    """Whether it is known to cost nothing that could be measured."""
    if isinstance(cause.saves_ns, Missing) or isinstance(step_ns, Missing):
        return False
    return cause.saves_ns < LEAST_TOLD * step_ns


def _order(cause: CompileCause) -> tuple[float, float]:
    saves = 0.0 if isinstance(cause.saves_ns, Missing) else cause.saves_ns
    return -saves, -float(cause.once_ns or 0)


def _rule_of(
    text: str, rules: Iterable[tuple[re.Pattern[str], CompileRuleId]], otherwise: CompileRuleId
) -> CompileRuleId:
    return next((rule for pattern, rule in rules if pattern.search(text)), otherwise)


def _not_told(reason: str) -> Missing:
    return Missing(Fact.SAVING, reason)


_BEHIND_A_SKIP: Final = _not_told("the graph is not recorded at all: mend that first")
_NO_TRACE: Final = _not_told("there are no traced steps, or no step was timed without a profiler")


def _predicted(costs: _Costs | None, saving: Callable[[_Costs], float]) -> float | Missing:
    return _NO_TRACE if costs is None else saving(costs)


def _breaks(compilation: Compilation, costs: _Costs | None) -> Iterator[CompileCause]:
    """Graph breaks, those of one line together."""
    by_line: dict[str, list[GraphBreak]] = {}
    for graph_break in compilation.breaks:
        line_text = graph_break.lines[0].text if graph_break.lines else graph_break.reason
        by_line.setdefault(line_text, []).append(graph_break)
    rests = _rests(compilation)
    called = {call.frame for call in costs.time.calls if call.frame} if costs else set()
    for together in by_line.values():
        own = [graph_break.frame for graph_break in together if graph_break.frame is not None]
        # Functions around the line are given up because of it: their reason is none of its own.
        first = next(
            (graph_break for graph_break in together if not graph_break.whole_frame), together[0]
        )
        reason = first.reason
        added = {rest for graph_break in together for rest in rests.get(_place(graph_break), ())}
        # Functions between the outermost and the line are compiled by themselves because of it.
        added |= set(own[1:])
        added -= set(own[:1])
        inside = set(own) & called
        text = f"{reason} {first.explanation or ''}"
        whole = all(graph_break.whole_frame for graph_break in together)

        yield CompileCause(
            rule=_rule_of(text, _BREAK_RULES, CompileRuleId.GRAPH_BREAK),
            reason=reason,
            lines=first.lines,
            frames=tuple(dict.fromkeys(own)),
            times=len(together),
            saves_ns=_not_told(
                "the whole function runs eagerly, and what compiling it would give is not known"
            )
            if whole
            else _predicted(costs, partial(_of_one_graph, own[:1], inside, added)),
            once_ns=None,
            hints=first.hints,
            link=first.link,
        )


def _of_one_graph(
    outermost: Sequence[str], inside: set[str], added: set[str], costs: _Costs
) -> float:
    """What it would save if a function were one graph: the code between its parts, and all of its
    graphs but one."""
    between = costs.idle((StepPart.EAGER, StepPart.WAIT), inside | added)
    replays = {call.frame: call.replays for call in costs.time.calls}
    has_graph = any(replays.get(frame) for frame in outermost)
    kept_ns = 0.0 if has_graph else costs.launches_of_one_graph()
    return max(0.0, between + costs.idle(_ADDED, added) - kept_ns)


def _place(graph_break: GraphBreak) -> tuple[str, int] | None:
    """Where the rest behind a break begins: its line in the frame that is given up."""
    return (graph_break.lines[0].file, graph_break.lines[0].line) if graph_break.lines else None


def _rests(compilation: Compilation) -> dict[tuple[str, int] | None, list[str]]:
    """The compilations of rests of functions, by the line behind which they go on."""
    rests: dict[tuple[str, int] | None, list[str]] = {}
    for frame in compilation.frames:
        if frame.resumes and frame.place is not None:
            rests.setdefault((frame.place.file, frame.place.line), []).append(frame.id)
    return rests


def _recompiles(
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
            saves_ns=_not_told(
                "what compiling it would give is not known" if limit else "it is paid once"
            ),
            once_ns=sum(ns or 0 for ns in took) or None,
            details=tuple(dict.fromkeys(guards))[:8],
        )


@dataclass
class _Split:
    """What is split at one line."""

    lines: tuple[UserLine, ...]
    frames: list[str]
    operators: list[SplitOperator]


def _splits(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: _Costs | None
) -> Iterator[CompileCause]:
    """Operators at which graphs are split, those of one line together."""
    splits: dict[str, _Split] = {}
    parts: dict[str, int] = {}
    for split in compilation.partitionings:
        own = split.frame or ""
        parts[own] = len(split.partitions)
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
            else _predicted(
                costs, partial(_of_joining, tuple(dict.fromkeys(at.frames)), shares, parts)
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
        return _DEVICE_CALLS
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
    costs: _Costs | None,
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


def _launches_between(costs: _Costs | None, frame: str) -> bool:
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
        else _rule_of(operator.reason, _SPLIT_RULES, CompileRuleId.UNSAFE_OPERATOR)
        for operator in operators
    ]
    others = [rule for rule in rules if rule is not CompileRuleId.COPY_BETWEEN_DEVICES]
    return Counter(others or rules).most_common(1)[0][0]


def _of_joining(
    frames: Sequence[str], shares: Mapping[str, int], parts: Mapping[str, int], costs: _Costs
) -> float:
    """What it would save if the parts of split graphs were one, where each of the lines at which a
    graph is split has an equal share."""
    replays = {call.frame: call.replays for call in costs.time.calls}
    total = 0.0
    for frame in frames:
        count = max(replays.get(frame, 0.0), parts.get(frame, 1), 1.0)
        between = costs.idle((StepPart.COMPILED, StepPart.WAIT), [frame])
        each = (StepPart.DISPATCH, StepPart.LAUNCH, StepPart.COPIES)
        per_graph = costs.idle(each, [frame])
        total += (between + (count - 1) / count * per_graph) / shares[frame]
    return total


def _skips(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: _Costs | None
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
            rule=_rule_of(reason, _SKIP_RULES, CompileRuleId.NOT_RECORDED),
            reason=reason,
            lines=together[0].lines,
            frames=own,
            times=len(together),
            saves_ns=_predicted(costs, partial(_of_recording, own)),
            once_ns=None,
        )


def _lines_of_skip(
    skip: GraphSkip, compilation: Compilation, frame: CompiledFrame | None
) -> tuple[UserLine, ...]:
    """The lines of a skip without any: where Dynamo's graph writes to an input, or copies between
    devices; else where the function begins."""
    rule = _rule_of(skip.reason, _SKIP_RULES, CompileRuleId.NOT_RECORDED)
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
        line = first_cpu_use(frame) or first_call(frame, _DEVICE_CALLS)
    return frame_lines(frame) if line is None else (line,)


def _of_recording(frames: Iterable[str], costs: _Costs) -> float:
    """What recording graphs that are launched kernel by kernel would save."""
    launched = costs.idle((StepPart.COMPILED, StepPart.WAIT), frames)
    return max(0.0, launched - costs.launches_of_one_graph())


def _rerecordings(
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
        placed = lines[key] or frame_lines(whole)
        yield CompileCause(
            rule=CompileRuleId.MOVED_INPUT if names else CompileRuleId.PENDING_BACKWARD,
            reason=reason,
            lines=placed,
            frames=(frame,) if frame is not None else (),
            times=times,
            saves_ns=_not_told("it is paid at each recording, not in each step"),
            once_ns=None,
            details=names,
        )


def _copies(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: _Costs | None
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
        yield CompileCause(
            rule=CompileRuleId.COPIED_INPUTS,
            reason=f"{len(largest)} inputs are copied before each replay",
            lines=tuple(dict.fromkeys(o.line for o, _ in origins if o.line is not None))
            or frame_lines(frames.get(frame)),
            frames=(frame,),
            times=len(nodes),
            saves_ns=costs.whole((StepPart.COPIES,), [frame]),
            once_ns=None,
            details=tuple(f"{origin.name}: {size:,} B" for origin, size in origins)[:8],
        )


def _warnings(
    compilation: Compilation, frames: dict[str, CompiledFrame], costs: _Costs | None
) -> Iterator[CompileCause]:
    """What the cudagraph trees warned of."""
    skipped = {skip.frame for skip in compilation.skips}
    slow = [
        call.frame
        for call in (costs.time.calls if costs else ())
        if call.frame and call.launches and not call.replays and call.frame not in skipped
    ]
    recorded = Counter(function.frame for function in compilation.functions if function.frame)
    for warning in compilation.warnings:
        rule = _rule_of(warning.text, _WARNING_RULES, CompileRuleId.NOT_RECORDED)
        if rule is CompileRuleId.PENDING_BACKWARD:
            own, saves = slow, _predicted(costs, partial(_of_recording, slow))
        else:
            # It names no function: the one that is recorded most often, with the most sizes.
            own = [frame for frame, _ in recorded.most_common(1)]
            saves = _not_told("it is paid once for each size")
        yield CompileCause(
            rule=rule,
            reason=warning.text,
            # What is to be mended is the call: the step that it begins, the sizes that it gives.
            lines=tuple(line for frame in own for line in call_lines(frames.get(frame)))
            or warning.lines,
            frames=tuple(own),
            times=warning.times,
            saves_ns=saves,
            once_ns=None,
        )
