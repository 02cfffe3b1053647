"""Why a compiled step is not one replay: what broke, split, skipped or copied, each with its line
and with what mending it would save.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.dynamo_causes import (
    break_causes,
    recompile_causes,
)
from graphviz_dash.features.torch_compile.analysis.recording_causes import (
    copy_causes,
    repeated_call_causes,
    rerecording_causes,
    skip_causes,
    warning_causes,
)
from graphviz_dash.features.torch_compile.analysis.saving_range import saving_range
from graphviz_dash.features.torch_compile.analysis.savings import StepCosts
from graphviz_dash.features.torch_compile.analysis.split_causes import split_causes
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.compile_rules import CompileRuleId

LEAST_TOLD: Final = 0.005
"""The part of a step below which a saving that is known is no cause."""


def compile_causes(
    compilation: Compilation,
    time: StepTime | Missing,
    step_ns: float | Missing,
    *,
    runs_freely: bool = False,
    process_medians: Sequence[float] = (),
) -> tuple[CompileCause, ...]:
    """The causes that ``compilation`` tells, the one that saves most first.

    Args:
        compilation: what torch.compile did.
        time: where the time of its traced steps goes.
        step_ns: the time of a clean step, in ns.
        runs_freely: whether that step was not waited for at its end, as the traced ones are.
        process_medians: its medians in the processes in which it was timed, in ns.
    """
    costs = None
    if not isinstance(time, Missing) and not isinstance(step_ns, Missing):
        costs = StepCosts(time, step_ns, runs_freely)
    frames = {frame.id: frame for frame in compilation.frames}
    candidates = [
        *break_causes(compilation, costs),
        *recompile_causes(compilation, frames),
        *split_causes(compilation, frames, costs),
        *skip_causes(compilation, frames, costs),
        *rerecording_causes(compilation, frames),
        *repeated_call_causes(compilation, frames, costs),
        *copy_causes(compilation, frames, costs),
        *warning_causes(compilation, frames, costs),
    ]
    causes = [cause for cause in candidates if not _is_negligible(cause, step_ns)]
    if costs is not None:
        causes = [_ranged(cause, costs, process_medians) for cause in causes]
    return tuple(sorted(causes, key=_order))


def _ranged(
    cause: CompileCause, costs: StepCosts, process_medians: Sequence[float]
) -> CompileCause:
    """The cause with how sure its saving is, where that is known."""
    if isinstance(cause.saves_ns, Missing):
        return cause
    parts = costs.time.parts
    work = sum(part.busy_ns for part in parts if part.part is not StepPart.COPIES)
    most = costs.step_ns - work
    own = saving_range(cause.saves_ns, costs.step_ns, most, process_medians)
    return replace(cause, saves_range=own)


def _is_negligible(cause: CompileCause, step_ns: float | Missing) -> bool:
    """Whether it is known to cost nothing that could be measured."""
    if isinstance(cause.saves_ns, Missing) or isinstance(step_ns, Missing):
        return False
    return cause.saves_ns < LEAST_TOLD * step_ns


def _order(cause: CompileCause) -> tuple[float, bool, float]:
    """By what they save; of those that save an unknown time in each step and of those that are
    paid once the former."""
    saves = 0.0 if isinstance(cause.saves_ns, Missing) else cause.saves_ns
    return -saves, cause.rule is CompileRuleId.RECOMPILING, -float(cause.once_ns or 0)
