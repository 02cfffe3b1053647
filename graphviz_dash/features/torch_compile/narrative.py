"""torch.compile results of a step in sentences, and the meaning of the parts of its time."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.guidance.gaps import build_compilation_command
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import CompilationFact
from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRuleId
from graphviz_dash.units import format_ns, pluralize

if TYPE_CHECKING:
    from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
    from graphviz_dash.features.torch_compile.analysis.report import CompileReport
    from graphviz_dash.model.run import Run

PART_MEANINGS: Final[Mapping[StepPart, str]] = {
    StepPart.REPLAY: "GPU work of CUDA graph launches.",
    StepPart.COPIES: "Copies of inputs into the static addresses that graphs read.",
    StepPart.COMPILED: "Compiled kernels outside graphs, launched one by one.",
    StepPart.EAGER: "Uncompiled code between graphs and outside compiled functions.",
    StepPart.GUARDS: "Dynamo's guard checks, which select a compilation for the call.",
    StepPart.DISPATCH: "Wrappers of AOTAutograd, Inductor and the cudagraph trees, in Python.",
    StepPart.LAUNCH: "The GPU is idle while a graph is launched.",
    StepPart.PYTHON: "The GPU is idle while the CPU is outside any operator.",
    StepPart.WAIT: "The CPU waits for the GPU, which has just started or finished its work.",
}

STEP_TIME_METHOD: Final = (
    "GPU work is as long as in the trace, and a graph launch as long as a clean one. The rest of "
    "the step without a profiler is idle time, split in the same proportions as in the trace"
)


SAVING_METHOD: Final = (
    "Savings refer to the clean step, simulated without the cause. In tests on a GPU, the range in "
    "brackets held for 80% of the fixes. A saving below half of the difference between processes "
    "with the same step is within noise"
)


def name_step(report: CompileReport) -> str:
    """Name the step time: traced if no clean one is known, else with its statistic, if any."""
    if isinstance(report.step_ns, Missing) and not isinstance(report.time, Missing):
        return "traced step"
    return "step" if report.step_statistic is None else f"{report.step_statistic} step"


def summarize_compilation(report: CompileReport) -> str:
    """Summarize the compilation and its first fix."""
    compilation = report.compilation
    counts = [pluralize(len(compilation.frames), "compilation")] if compilation.frames else []
    if compilation.breaks:
        counts.append(
            pluralize(
                len({graph_break.lines[:1] for graph_break in compilation.breaks}), "graph break"
            )
        )
    if report.replays is not None:
        counts.append(f"{pluralize(round(report.replays), 'graph launch')} per step")
    summary = f"{', '.join(counts)}." if counts else "The step runs compiled code."
    if not compilation.sources:
        return (
            f"{summary} Graph breaks and recompiles were not recorded: the trace shows only times."
        )
    saving = next(
        (cause for cause in report.causes if not isinstance(cause.gain_ns, Missing)), None
    )
    if not report.causes:
        return f"{summary} {_describe_absent_causes(report)}"
    cause = saving or report.causes[0]
    if cause.rule is CompileRuleId.RECOMPILING:
        compile_time = (
            f", {format_ns(cause.one_time_ns)} of compile time" if cause.one_time_ns else ""
        )
        title = f"{get_cause_title(cause)}{_format_location(cause)}"
        return (
            f"{summary} No recorded cause slows every step. One-time cost: {title}{compile_time}."
        )
    return (
        f"{summary} Fix first: "
        f"{get_cause_title(cause)}{_format_location(cause)}{_format_step_saving(report, cause)}."
    )


def _describe_absent_causes(report: CompileReport) -> str:
    """Describe compiled code in which nothing prevents CUDA graphs."""
    lacks_graphs = _has_graphs_disabled(report)
    if report.program_graphs:
        text = f"The program captures {pluralize(report.program_graphs, 'CUDA graph')} itself; "
        if lacks_graphs:
            return f"{text}the traced steps launch none of them."
        return f"{text}the Graph page and ladder explain steps without one."
    if lacks_graphs:
        return 'CUDA graphs were not enabled: torch.compile(mode="reduce-overhead") enables them.'
    return "No recorded cause prevents CUDA graphs."


def _has_graphs_disabled(report: CompileReport) -> bool:
    """True if torch's records are complete but show no graphs."""
    compilation = report.compilation
    facts = {source.fact for source in compilation.sources if source.source is not None}
    recorded = (
        compilation.functions or compilation.nodes or compilation.skips or compilation.partitionings
    )
    replayed = isinstance(report.time, Missing) or any(
        part.part is StepPart.REPLAY for part in report.time.parts
    )
    return CompilationFact.SKIPS in facts and not recorded and not replayed


def build_compile_log_hint(run: Run, runs: Sequence[Run]) -> tuple[str, str]:
    """Return a hint and a command that records graph breaks, recompiles and their causes; the
    command is empty if none suffices."""
    if run.manifest.sources:
        return (
            "For graph breaks, recompiles and their causes, import a compile log of the same "
            "program next to the trace. The program writes one when it runs with TORCH_TRACE=DIR.",
            "",
        )
    return (
        "For graph breaks, recompiles and their causes, run on a machine with a CUDA GPU:",
        escape_control_characters(shlex.join(build_compilation_command(run, runs))),
    )


def get_cause_title(cause: CompileCause) -> str:
    """Return the title of the broken rule."""
    return COMPILE_RULES[cause.rule].title


def get_cause_location(cause: CompileCause) -> str:
    """Return the source line; empty if unknown."""
    if cause.lines:
        return escape_control_characters(cause.lines[0].text)
    return (
        escape_control_characters(cause.details[0])
        if cause.details and ":" in cause.details[0]
        else ""
    )


def format_saving(cause: CompileCause) -> str:
    """Format the saving, or the reason why it is unavailable."""
    if isinstance(cause.gain_ns, Missing):
        return f"not available: {cause.gain_ns.reason}"
    interval = cause.gain_range
    if interval is None:
        return f"{format_ns(cause.gain_ns)} per step"
    ends = f"{format_ns(interval.low_ns)} to {format_ns(interval.high_ns)}"
    if interval.is_significant:
        return f"{format_ns(cause.gain_ns)} per step ({ends})"
    return (
        f"{format_ns(cause.gain_ns)} per step ({ends}), within noise: processes differ by "
        f"{format_ns(interval.process_variance_ns)}"
    )


def format_saving_badge(cause: CompileCause) -> str:
    """Format the saving in a few words."""
    if isinstance(cause.gain_ns, Missing):
        return "one-time"
    if cause.gain_range is not None and not cause.gain_range.is_significant:
        return "within noise"
    return f"saves {format_ns(cause.gain_ns)} per step"


def _format_location(cause: CompileCause) -> str:
    location = get_cause_location(cause)
    return f", {location}" if location else ""


def _format_step_saving(report: CompileReport, cause: CompileCause) -> str:
    if isinstance(cause.gain_ns, Missing) or isinstance(report.step_ns, Missing):
        return ""
    interval = cause.gain_range
    saved, step = format_ns(cause.gain_ns), format_ns(report.step_ns)
    if interval is None:
        return f", which would save {saved} of {step}"
    if interval.is_significant:
        ends = f"{format_ns(interval.low_ns)} to {format_ns(interval.high_ns)}"
        return f", which would save {saved} ({ends}) of {step}"
    return f", which would save {saved} of {step}, within the noise between processes"
