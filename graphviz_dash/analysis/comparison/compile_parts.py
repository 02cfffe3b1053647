"""What torch.compile with graphs saves, divided: what compiling gave (fusion, fewer operators), and
what graphs gave on top. The run that was compiled without graphs stands between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import ExecutionMode

if TYPE_CHECKING:
    from graphviz_dash.analysis.step_comparison.waterfall import CauseTimes, Waterfall
    from graphviz_dash.model.run import Experiment, Run


class CompileParts(Struct, frozen=True):
    """The equation of a compiled run with graphs in two parts, which add up to it by cause."""

    without_graphs: str
    """Name of the run that was compiled without graphs."""
    compiling: CauseTimes
    """What that run saves over the baseline, in ns."""
    graphs: CauseTimes
    """What the run with graphs saves besides, in ns."""


def compiled_without_graphs(run: Run, experiment: Experiment) -> Run | Missing:
    """The run that was compiled as ``run`` was, of the same rank, without graphs."""
    if not (run.mode.is_compiled and run.mode.captures_graphs):
        reason = f"mode {run.mode.value} does not both compile and capture graphs"
        return Missing(Fact.COMPILED_STEP, reason)
    rank = run.manifest.rank
    for other in experiment.runs:
        if other.mode is ExecutionMode.COMPILE_DEFAULT and other.manifest.rank == rank:
            return other
    reason = "the experiment has no run of mode compile-default: collect it with the others"
    return Missing(Fact.COMPILED_STEP, reason)


def compile_parts(
    equation: Waterfall | Missing, of_compiling: Waterfall | Missing
) -> CompileParts | Missing:
    """The parts of a run's ``equation``; ``of_compiling`` is that of the run without graphs against
    the same baseline."""
    if isinstance(equation, Missing):
        return equation
    if isinstance(of_compiling, Missing):
        return of_compiling
    compiling = of_compiling.saved
    return CompileParts(of_compiling.run, compiling, equation.saved - compiling)
