"""torch.compile explained: what it made of a step, where the time goes, what to mend first."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.metrics.recorded_step import recorded_step_ns
from graphviz_dash.analysis.metrics.run_metrics import clean_step_ns, step_times
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.analysis.trace.steps import Step, steps
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.causes import compile_causes
from graphviz_dash.features.torch_compile.analysis.ended_steps import ended_step_causes
from graphviz_dash.features.torch_compile.analysis.program_tree import ProgramTree, program_tree
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import (
    CompileRuleOutcome,
    rule_outcomes,
)
from graphviz_dash.features.torch_compile.analysis.slices import has_compiled_code
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime, step_time
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compilation import Compilation

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run


class CompileReport(Struct, frozen=True):
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
    compilation = run.compilation or _without_account(run)
    if compilation is None:
        return Missing(Fact.COMPILATION, "nothing was compiled while it was watched")
    time = _time(run, compilation, traced_steps)
    step_ns = _step_ns(run)
    runs_freely = clean_step_ns(run) is None
    causes = compile_causes(
        compilation,
        time,
        step_ns,
        runs_freely=runs_freely,
        process_medians=_process_medians(run),
    )
    causes = (*ended_step_causes(run.manifest.failures, compilation), *causes)
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
    return run.compilation is not None or _without_account(run) is not None


def _without_account(run: Run) -> Compilation | None:
    """Of a run without an account whose trace shows compiled code, or which an error of compiled
    code has ended: an account without facts."""
    shows_code = run.replay_trace is not None and has_compiled_code(run.replay_trace)
    failures = run.manifest.failures if run.mode.is_compiled else ()
    if not shows_code and not failures:
        return None
    nothing = Compilation(torch=run.manifest.environment.torch, sources=())
    return nothing if shows_code or any(ended_step_causes(failures, nothing)) else None


def _time(
    run: Run, compilation: Compilation, traced_steps: tuple[Step, ...] | None
) -> StepTime | Missing:
    if run.replay_trace is None:
        return why_missing(run, Fact.TRACED_PASS)
    own = steps(run.replay_trace) if traced_steps is None else traced_steps
    return step_time(run.replay_trace, own, compilation)


def _process_medians(run: Run) -> list[float]:
    """The median step of each process of the clean pass, in ns."""
    own = step_times(run.clean) if run.clean is not None else []
    return [median(times) for times in own if times]


def _step_ns(run: Run) -> float | Missing:
    clean = clean_step_ns(run)
    if clean is not None:
        return clean
    if run.recording is not None:
        return recorded_step_ns(run.recording)
    return why_missing(run, Fact.STEP_TIMES)
