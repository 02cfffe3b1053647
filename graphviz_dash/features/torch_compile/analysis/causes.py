"""Causes that keep a compiled step from being one replay, with lines and predicted gains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.dynamo_causes import (
    find_break_causes,
    find_recompile_causes,
)
from graphviz_dash.features.torch_compile.analysis.recording_causes import (
    find_copy_causes,
    find_repeated_call_causes,
    find_rerecording_causes,
    find_skip_causes,
    find_warning_causes,
)
from graphviz_dash.features.torch_compile.analysis.saving_range import compute_gain_range
from graphviz_dash.features.torch_compile.analysis.savings import StepCosts
from graphviz_dash.features.torch_compile.analysis.split_causes import find_split_causes
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.compile_rules import CompileRuleId

MIN_GAIN_SHARE: Final = 0.005
"""Share of a step below which a known gain is negligible."""


def find_compile_causes(
    compilation: Compilation,
    time: StepTime | Missing,
    step_ns: float | Missing,
    *,
    is_async: bool = False,
    process_medians: Sequence[float] = (),
) -> tuple[CompileCause, ...]:
    """Find the causes in ``compilation``, sorted by predicted gain.

    Args:
        compilation: record of torch.compile.
        time: breakdown of the traced steps.
        step_ns: clean step time, in ns.
        runs_freely: True if the clean step does not wait for the GPU at its end.
        process_medians: median step time of each process, in ns.
    """
    costs = None
    if not isinstance(time, Missing) and not isinstance(step_ns, Missing):
        costs = StepCosts(time, step_ns, is_async)
    frames = {frame.id: frame for frame in compilation.frames}
    candidates = [
        *find_break_causes(compilation, costs),
        *find_recompile_causes(compilation, frames),
        *find_split_causes(compilation, frames, costs),
        *find_skip_causes(compilation, frames, costs),
        *find_rerecording_causes(compilation, frames),
        *find_repeated_call_causes(compilation, frames, costs),
        *find_copy_causes(compilation, frames, costs),
        *find_warning_causes(compilation, frames, costs),
    ]
    causes = [cause for cause in candidates if not _is_negligible(cause, step_ns)]
    if costs is not None:
        causes = [_add_gain_range(cause, costs, process_medians) for cause in causes]
    return tuple(sorted(causes, key=_get_sort_key))


def _add_gain_range(
    cause: CompileCause, costs: StepCosts, process_medians: Sequence[float]
) -> CompileCause:
    if isinstance(cause.gain_ns, Missing):
        return cause
    parts = costs.time.parts
    work = sum(part.busy_ns for part in parts if part.part is not StepPart.COPIES)
    max_ns = costs.step_ns - work
    gain_range = compute_gain_range(cause.gain_ns, costs.step_ns, max_ns, process_medians)
    return replace(cause, gain_range=gain_range)


def _is_negligible(cause: CompileCause, step_ns: float | Missing) -> bool:
    if isinstance(cause.gain_ns, Missing) or isinstance(step_ns, Missing):
        return False
    return cause.gain_ns < MIN_GAIN_SHARE * step_ns


def _get_sort_key(cause: CompileCause) -> tuple[float, bool, float]:
    """Sort by gain; if the gain is unknown, one-time costs come last."""
    gain_ns = 0.0 if isinstance(cause.gain_ns, Missing) else cause.gain_ns
    return -gain_ns, cause.rule is CompileRuleId.RECOMPILING, -float(cause.one_time_ns or 0)
