"""torch.compile explained: what it made of a step, where the time goes, what to mend first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.compiled.cause import CompileCause
from graphviz_dash.analysis.compiled.causes import compile_causes
from graphviz_dash.analysis.compiled.program_tree import ProgramTree, program_tree
from graphviz_dash.analysis.compiled.rule_outcomes import CompileRuleOutcome, rule_outcomes
from graphviz_dash.analysis.compiled.slices import has_compiled_code
from graphviz_dash.analysis.compiled.step_time import StepPart, StepTime, step_time
from graphviz_dash.analysis.metrics.recorded_metrics import recorded_step_ns
from graphviz_dash.analysis.metrics.run_metrics import clean_step_ns
from graphviz_dash.analysis.trace.steps import Step, steps
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compilation import Compilation, UserLine
from graphviz_dash.model.compile_rules import CompileRuleId

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

_FAILURES = (
    (
        "accessing tensor output of CUDAGraphs that has been overwritten",
        CompileRuleId.OVERWRITTEN_OUTPUT,
    ),
    ("accessing gradient tensor output of CUDAGraphs", CompileRuleId.OVERWRITTEN_OUTPUT),
    ("during capture", CompileRuleId.CAPTURE_FAILED),
    ("when stream is capturing", CompileRuleId.CAPTURE_FAILED),
)


@dataclass(frozen=True)
class CompileReport:
    """What torch.compile made of one run."""

    run: str
    """The run's name."""
    compilation: Compilation
    """What was recorded of it."""
    time: StepTime | Missing
    """Where the time of its traced steps goes."""
    step_ns: float | Missing
    """The time of a step without a profiler, in ns."""
    causes: tuple[CompileCause, ...]
    """What keeps the step from being one replay, what saves most first."""
    rules: tuple[CompileRuleOutcome, ...]
    """What came of each rule, those that are broken first."""
    tree: ProgramTree
    """The program from user function to graphs."""

    def part_ns(self, part: StepPart) -> float | None:
        """The time of one part in a clean step, in ns; None where it is not known."""
        if isinstance(self.time, Missing) or isinstance(self.step_ns, Missing):
            return None
        whole = self.step_ns
        return sum(self.time.clean(own, whole) for own in self.time.parts if own.part is part)

    @property
    def replays(self) -> float | None:
        """Graphs that compiled code launches in a step; None without traced steps."""
        if isinstance(self.time, Missing):
            return None
        return sum(call.replays for call in self.time.calls)


def compile_report(
    run: Run, traced_steps: tuple[Step, ...] | None = None
) -> CompileReport | Missing:
    """The report of ``run``; ``traced_steps`` are its steps, where they are known already."""
    compilation = run.compilation or _traced_only(run)
    if compilation is None:
        return Missing(Fact.COMPILATION, "nothing was compiled while it was watched")
    time = _time(run, compilation, traced_steps)
    step_ns = _step_ns(run)
    causes = compile_causes(compilation, time, step_ns)
    causes = (*_failures(run), *causes)
    return CompileReport(
        run=run.name,
        compilation=compilation,
        time=time,
        step_ns=step_ns,
        causes=causes,
        rules=rule_outcomes(compilation, time, causes),
        tree=program_tree(compilation, time, step_ns, causes),
    )


def has_compile_report(run: Run) -> bool:
    """Whether there is something to report of ``run``."""
    return run.compilation is not None or _traced_only(run) is not None


def _traced_only(run: Run) -> Compilation | None:
    """Of a run without an account whose trace shows compiled code: an account without facts."""
    if run.replay_trace is None or not has_compiled_code(run.replay_trace):
        return None
    return Compilation(torch=run.manifest.environment.torch, sources=())


def _time(
    run: Run, compilation: Compilation, traced_steps: tuple[Step, ...] | None
) -> StepTime | Missing:
    if run.replay_trace is None:
        return why_missing(run, Fact.TRACED_PASS)
    own = steps(run.replay_trace) if traced_steps is None else traced_steps
    return step_time(run.replay_trace, own, compilation)


def _step_ns(run: Run) -> float | Missing:
    clean = clean_step_ns(run)
    if clean is not None:
        return clean
    if run.recording is not None:
        return recorded_step_ns(run.recording)
    return why_missing(run, Fact.STEP_TIMES)


def _location(text: str | None) -> tuple[UserLine, ...]:
    """``file:line`` as a line."""
    file, _, line = (text or "").rpartition(":")
    return (UserLine(file, int(line)),) if file and line.isdecimal() else ()


def _failures(run: Run) -> tuple[CompileCause, ...]:
    """Errors of the cudagraph trees that ended the run."""
    causes = []
    for failure in run.manifest.failures:
        rule = next((rule for text, rule in _FAILURES if text in failure.message), None)
        if rule is None:
            continue
        causes.append(
            CompileCause(
                rule=rule,
                reason=failure.message.partition("\n")[0][:300],
                lines=_location(failure.location),
                frames=(),
                times=1,
                saves_ns=Missing(Fact.SAVING, "it ended the run"),
                once_ns=None,
            )
        )
    return tuple(causes)
