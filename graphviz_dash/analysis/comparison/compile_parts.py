"""Split of the saving of torch.compile with graphs into compilation and graphs.

The run compiled without graphs is the intermediate point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import ExecutionMode

if TYPE_CHECKING:
    from graphviz_dash.analysis.step_comparison.waterfall import CauseTimes, Waterfall
    from graphviz_dash.model.run import Experiment, Run


class CompileSavings(Struct, frozen=True):
    """Savings of a compiled run with graphs in two parts, which add up by cause."""

    run_without_graphs: str
    """Name of the run compiled without graphs."""
    compilation: CauseTimes
    """Saving of that run over the baseline, in ns."""
    graphs: CauseTimes
    """Additional saving of the run with graphs, in ns."""


def find_run_without_graphs(run: Run, experiment: Experiment) -> Run | Missing:
    """Find the run of the same rank compiled without graphs."""
    if not (run.mode.is_compiled and run.mode.captures_graphs):
        reason = f"mode {run.mode.value} does not both compile and capture graphs"
        return Missing(Fact.COMPILED_STEP, reason)
    rank = run.manifest.rank
    for other in experiment.runs:
        if other.mode is ExecutionMode.COMPILE_DEFAULT and other.manifest.rank == rank:
            return other
    reason = "the experiment has no run of mode compile-default; collect one"
    return Missing(Fact.COMPILED_STEP, reason)


def split_compile_savings(
    waterfall: Waterfall | Missing, compile_waterfall: Waterfall | Missing
) -> CompileSavings | Missing:
    """Split the savings of ``equation`` into compilation and graphs.

    ``of_compiling`` compares the run without graphs with the same baseline.
    """
    if isinstance(waterfall, Missing):
        return waterfall
    if isinstance(compile_waterfall, Missing):
        return compile_waterfall
    compiling = compile_waterfall.saved
    return CompileSavings(compile_waterfall.run, compiling, waterfall.saved - compiling)
