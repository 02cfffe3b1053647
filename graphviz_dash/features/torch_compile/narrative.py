"""What torch.compile made of a step, in sentences, and what the parts of its time mean."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.errors import printable
from graphviz_dash.guidance.gaps import with_compilation
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import CompilationFact
from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRuleId
from graphviz_dash.units import counted, format_ns

if TYPE_CHECKING:
    from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
    from graphviz_dash.features.torch_compile.analysis.report import CompileReport
    from graphviz_dash.model.run import Run

PART_MEANINGS: Final[Mapping[StepPart, str]] = {
    StepPart.REPLAY: "The GPU works for CUDA graphs that were launched as a whole.",
    StepPart.COPIES: "Inputs that may lie elsewhere at each call are copied to where graphs read.",
    StepPart.COMPILED: "Compiled kernels that no graph holds, launched one by one.",
    StepPart.EAGER: "Code that was not compiled: between graphs, and outside compiled functions.",
    StepPart.GUARDS: "Dynamo looks up which compilation holds for this call.",
    StepPart.DISPATCH: "Wrappers of AOTAutograd, Inductor and the cudagraph trees, in Python.",
    StepPart.LAUNCH: "The GPU is idle while a graph is launched.",
    StepPart.PYTHON: "The GPU is idle while the CPU is outside any operator.",
    StepPart.WAIT: "The CPU waits for the GPU, which has just begun or ended its work.",
}
"""What each part of a step's time is."""

METHOD: Final = (
    "GPU work takes as long as in the trace, and a graph's launch what a clean one takes; what is "
    "left of the step without a profiler is idle time, divided as the trace divides it"
)
"""How the time of a step is divided."""


SAVING_METHOD: Final = (
    "Savings are of the clean step, run again without the cause; four mends in five that were "
    "tried on a GPU saved what the range in brackets holds. What is smaller than half of what "
    "processes with the same step differ by is too small to tell"
)
"""How sure a saving is."""


def compile_sentence(report: CompileReport) -> str:
    """What became of the step, and what to mend first."""
    made = report.compilation
    first = [counted(len(made.frames), "compilation")] if made.frames else []
    if made.breaks:
        first.append(
            counted(len({graph_break.lines[:1] for graph_break in made.breaks}), "graph break")
        )
    if report.replays is not None:
        first.append(f"{counted(round(report.replays), 'graph launch')} a step")
    said = f"{', '.join(first)}." if first else "Compiled code runs in it."
    if not made.sources:
        return f"{said} What keeps it from fewer was not recorded: the trace shows its time alone."
    saving = next(
        (cause for cause in report.causes if not isinstance(cause.saves_ns, Missing)), None
    )
    if not report.causes and _asked_for_no_graphs(report):
        return (
            f'{said} No CUDA graph was asked for: torch.compile(mode="reduce-overhead") records '
            "them."
        )
    if not report.causes:
        return f"{said} Nothing that was recorded keeps the step from its graphs."
    cause = saving or report.causes[0]
    if cause.rule is CompileRuleId.RECOMPILING:
        spent = f", {format_ns(cause.once_ns)} of compiling" if cause.once_ns else ""
        title = f"{cause_title(cause)}{_place(cause)}"
        return f"{said} Nothing that was recorded costs each step time; paid once: {title}{spent}."
    return f"{said} Mend first: {cause_title(cause)}{_place(cause)}{_saving(report, cause)}."


def _asked_for_no_graphs(report: CompileReport) -> bool:
    """Whether nothing of torch's graphs was seen, though it would have been: no tree, no skip."""
    made = report.compilation
    seen = {source.fact for source in made.sources if source.source is not None}
    recorded = made.functions or made.nodes or made.skips or made.partitionings
    replayed = isinstance(report.time, Missing) or any(
        part.part is StepPart.REPLAY for part in report.time.parts
    )
    return CompilationFact.SKIPS in seen and not recorded and not replayed


def unexplained_hint(run: Run, runs: Sequence[Run]) -> tuple[str, str]:
    """How to get graph breaks, recompiles and their causes where ``run``, one of ``runs``, has no
    record of the compiler, and the command; empty where no command alone does."""
    if run.manifest.sources:
        return (
            "For graph breaks, recompiles and their causes import a log of the same program beside "
            "the trace: it writes one when it is run with TORCH_TRACE=DIR.",
            "",
        )
    return (
        "For graph breaks, recompiles and their causes, on a machine with a CUDA GPU:",
        printable(shlex.join(with_compilation(run, runs))),
    )


def cause_title(cause: CompileCause) -> str:
    """The title of the rule that a cause breaks."""
    return COMPILE_RULES[cause.rule].title


def cause_place(cause: CompileCause) -> str:
    """The line of a cause; empty where none is known."""
    if cause.lines:
        return printable(cause.lines[0].text)
    return printable(cause.details[0]) if cause.details and ":" in cause.details[0] else ""


def saving_text(cause: CompileCause) -> str:
    """What mending would save, or why that is not known."""
    if isinstance(cause.saves_ns, Missing):
        return f"not known: {cause.saves_ns.reason}"
    own = cause.saves_range
    if own is None:
        return f"{format_ns(cause.saves_ns)} a step"
    ends = f"{format_ns(own.low_ns)} to {format_ns(own.high_ns)}"
    if own.is_clear:
        return f"{format_ns(cause.saves_ns)} a step ({ends})"
    return (
        f"{format_ns(cause.saves_ns)} a step ({ends}), too small to tell: processes differ by "
        f"{format_ns(own.differs_ns)}"
    )


def saving_badge(cause: CompileCause) -> str:
    """What mending would save, in a word or two."""
    if isinstance(cause.saves_ns, Missing):
        return "once"
    if cause.saves_range is not None and not cause.saves_range.is_clear:
        return "too small to tell"
    return f"saves {format_ns(cause.saves_ns)} a step"


def _place(cause: CompileCause) -> str:
    where = cause_place(cause)
    return f", {where}" if where else ""


def _saving(report: CompileReport, cause: CompileCause) -> str:
    if isinstance(cause.saves_ns, Missing) or isinstance(report.step_ns, Missing):
        return ""
    own = cause.saves_range
    saved, step = format_ns(cause.saves_ns), format_ns(report.step_ns)
    if own is None:
        return f", which would save {saved} of {step}"
    if own.is_clear:
        ends = f"{format_ns(own.low_ns)} to {format_ns(own.high_ns)}"
        return f", which would save {saved} ({ends}) of {step}"
    return f", which would save {saved} of {step}: too small to tell from what processes differ by"
