"""Report on torch.compile: compilation, time breakdown and top fixes.

Inductor's generated code has no program line. Its comments in the traceback name nodes of Dynamo's
graph, which have lines. If the call raised nothing, the first synchronizing operator is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.metrics.graph_coverage import explain_eager_window
from graphviz_dash.analysis.metrics.program_step import compute_program_step
from graphviz_dash.analysis.metrics.recorded_step import StepStatistic
from graphviz_dash.analysis.metrics.run_metrics import compute_clean_step_ns, get_step_times
from graphviz_dash.analysis.trace.compiled_code import has_compiled_code
from graphviz_dash.analysis.trace.integrity import (
    assess_integrity,
    select_complete_steps,
    select_launched_steps,
)
from graphviz_dash.analysis.trace.steps import Step, find_steps
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.causes import find_compile_causes
from graphviz_dash.features.torch_compile.analysis.inputs import (
    find_first_call,
    find_node_line,
    get_call_lines,
)
from graphviz_dash.features.torch_compile.analysis.program_tree import (
    ProgramTree,
    build_program_tree,
)
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import (
    CompileRuleOutcome,
    build_rule_outcomes,
)
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime, compute_step_time
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compilation import Compilation, CompiledFrame, UserLine
from graphviz_dash.model.compile_rules import CompileRuleId
from graphviz_dash.model.run import Failure, Run


class CompileReport(Struct, frozen=True):
    """Report on torch.compile for one run."""

    run: str
    compilation: Compilation
    time: StepTime | Missing
    """Breakdown of the traced steps."""
    step_ns: float | Missing
    """Step time without a profiler."""
    step_statistic: StepStatistic | None
    """Statistic of the step of a recorded program. None for clean timings, or if unknown."""
    causes: tuple[CompileCause, ...]
    """Causes, sorted by predicted gain."""
    rules: tuple[CompileRuleOutcome, ...]
    """Rule outcomes, violated rules first."""
    tree: ProgramTree
    """Tree of the program, from user functions to graphs."""
    program_graphs: int
    """Graphs that the program or its engine captured without torch.compile."""

    @property
    def replays(self) -> float | None:
        """Graph launches per step, as in the metrics; None if unknown."""
        return None if isinstance(self.time, Missing) else self.time.graph_launches


def build_compile_report(
    run: Run, traced_steps: tuple[Step, ...] | None = None
) -> CompileReport | Missing:
    """Build the report; ``traced_steps`` saves finding them again."""
    compilation = run.compilation or _infer_compilation(run)
    if compilation is None:
        return Missing(Fact.COMPILATION, "nothing was compiled during recording")
    time = _get_step_time(run, compilation, traced_steps)
    step_ns, statistic = _get_step_ns(run, time)
    runs_freely = compute_clean_step_ns(run) is None
    causes = find_compile_causes(
        compilation,
        time,
        step_ns,
        is_async=runs_freely,
        process_medians=_compute_process_medians(run),
    )
    causes = (*find_fatal_causes(run.manifest.failures, compilation), *causes)
    return CompileReport(
        run=run.name,
        compilation=compilation,
        time=time,
        step_ns=step_ns,
        step_statistic=statistic,
        causes=causes,
        rules=build_rule_outcomes(compilation, time, causes),
        tree=build_program_tree(compilation, time, step_ns, causes),
        program_graphs=_count_program_graphs(run, compilation),
    )


def has_compile_report(run: Run) -> bool:
    """Check whether ``run`` has a compile report."""
    return run.compilation is not None or _infer_compilation(run) is not None


def _count_program_graphs(run: Run, compilation: Compilation) -> int:
    """Count the top-level graphs that are not those of the cudagraph trees."""
    graph_count = sum(graph.parent is None for graph in run.graphs)
    return max(0, graph_count - len(compilation.nodes))


def _infer_compilation(run: Run) -> Compilation | None:
    """Return an empty compilation if only the trace or an error shows compiled code."""
    shows_code = run.replay_trace is not None and has_compiled_code(run.replay_trace)
    failures = run.manifest.failures if run.mode.is_compiled else ()
    if not shows_code and not failures:
        return None
    empty = Compilation(torch=run.manifest.environment.torch, sources=())
    return empty if shows_code or any(find_fatal_causes(failures, empty)) else None


def _get_step_time(
    run: Run, compilation: Compilation, traced_steps: tuple[Step, ...] | None
) -> StepTime | Missing:
    if run.replay_trace is None:
        return explain_missing(run, Fact.TRACED_PASS)
    run_steps = find_steps(run.replay_trace) if traced_steps is None else traced_steps
    integrity = assess_integrity(run.replay_trace, run_steps)
    complete = select_complete_steps(run.replay_trace, run_steps, integrity)
    if isinstance(complete, Missing):
        return complete
    launched_steps = select_launched_steps(run_steps, integrity)
    return compute_step_time(run.replay_trace, complete, compilation, launched_steps)


def _compute_process_medians(run: Run) -> list[float]:
    """Compute medians of the clean pass, in ns."""
    series = get_step_times(run.clean) if run.clean is not None else []
    return [median(times) for times in series if times]


def _get_step_ns(
    run: Run, time: StepTime | Missing
) -> tuple[float | Missing, StepStatistic | None]:
    clean = compute_clean_step_ns(run)
    if clean is not None:
        return clean, None
    if run.recording is None:
        return explain_missing(run, Fact.STEP_TIMES), None
    if not isinstance(time, Missing) and not time.graph_launches:
        eager_window = explain_eager_window(run)
        if eager_window is not None:
            return eager_window, None
    step = compute_program_step(run)
    if isinstance(step, Missing):
        return step, None
    return step.main.ns, StepStatistic.MEDIAN if step.is_median else StepStatistic.MEAN


_RULES: Final = (
    ("output of CUDAGraphs that has been overwritten", CompileRuleId.OVERWRITTEN_OUTPUT),
    ("accessing gradient tensor output of CUDAGraphs", CompileRuleId.OVERWRITTEN_OUTPUT),
    ("during capture", CompileRuleId.CAPTURE_FAILED),
    ("when stream is capturing", CompileRuleId.CAPTURE_FAILED),
    ("cudaErrorStreamCapture", CompileRuleId.CAPTURE_FAILED),
)
"""Messages of torch 2.6 to 2.13: first causes and errors that follow."""

_FRAME: Final = re.compile(r'^ *File "(?P<file>[^"\n]+)", line \d+, in (?P<function>\S+)$', re.M)
_RESUMED: Final = re.compile(r"^(?:torch_dynamo_resume_in_)+(.+?)(?:_at_\d+)+$")
_SOURCE_NODES: Final = re.compile(r"Source Nodes: \[(?P<names>[^\]]*)\]")
_RAISING_LINE: Final = "this line made the call that raised the error"
_SYNCHRONIZING_OPERATOR: Final = "the first operator of the graph that is known to synchronize"
_SYNCHRONIZING: Final = re.compile(
    r"\b(?:\w*nonzero|unique\w*|masked_select|bincount|repeat_interleave|linalg_\w+|svd\w*|item"
    r"|tolist)\("
)


def find_fatal_causes(
    failures: Iterable[Failure], compilation: Compilation
) -> Iterator[CompileCause]:
    """Find the causes of errors that ended a run."""
    for failure in failures:
        rule = _find_rule(failure)
        if rule is None:
            continue
        failed = None
        if rule is CompileRuleId.CAPTURE_FAILED:
            failed = _find_failed_operator(failure, compilation.frames)
        yield CompileCause(
            rule=rule,
            reason=failure.message.partition("\n")[0][:300],
            lines=(failed.line, *get_call_lines(failed.frame))
            if failed
            else _parse_location(failure.location),
            frames=(failed.frame.id,) if failed else (),
            count=1,
            gain_ns=Missing(Fact.SAVING, "the error ended the run"),
            one_time_ns=None,
            details=(failed.method,) if failed else (),
        )


def _find_rule(failure: Failure) -> CompileRuleId | None:
    """Return the violated rule; None if unrelated to the cudagraph trees."""
    texts = (failure.message, failure.traceback)
    return next((rule for text in texts for message, rule in _RULES if message in text), None)


class _FailedOperator(Struct, frozen=True):
    frame: CompiledFrame
    line: UserLine
    method: str


def _find_failed_operator(
    failure: Failure, frames: Sequence[CompiledFrame]
) -> _FailedOperator | None:
    """Search the innermost compilation on the stack."""
    on_stack = {
        (match["file"], _RESUMED.sub(r"\1", match["function"])): match.start()
        for match in _FRAME.finditer(failure.traceback)
    }
    innermost = [
        (on_stack[place.file, frame.function], frame)
        for frame in frames
        if (place := frame.location) is not None and (place.file, frame.function) in on_stack
    ]
    candidates = [frame for _, frame in sorted(innermost, key=lambda entry: -entry[0])]
    node_lists = _SOURCE_NODES.findall(failure.traceback)
    for frame in candidates:
        for name in reversed(node_lists[-1].split(", ") if node_lists else []):
            line = find_node_line(frame, name)
            if line is not None:
                return _FailedOperator(frame, line, _RAISING_LINE)
    for frame in candidates:
        line = find_first_call(frame, _SYNCHRONIZING)
        if line is not None:
            return _FailedOperator(frame, line, _SYNCHRONIZING_OPERATOR)
    return None


def _parse_location(text: str | None) -> tuple[UserLine, ...]:
    file, _, line = (text or "").rpartition(":")
    return (UserLine(file, int(line)),) if file and line.isdecimal() else ()
