"""Metrics derived from other metrics or from the waterfall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.metrics.low_confidence import communication_share
from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, one_off_cost, present
from graphviz_dash.analysis.metrics.thresholds import MUCH_COMMUNICATION
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Cause, Waterfall
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.units import format_percent

if TYPE_CHECKING:
    from graphviz_dash.analysis.trace.steps import Step
    from graphviz_dash.model.run import Run

EQUATION = (
    "gaps_removed",
    "kernel_change",
    "copy_change",
    "overlap_change",
    "synchronisation_removed",
    "rank_wait_removed",
    "remainder",
)
"""Waterfall metrics, in the order of waterfall.Cause; they need a baseline."""


def traced_over_clean_figures(
    run: Run, figures: Mapping[str, Figure], traced_steps: tuple[Step, ...]
) -> Iterator[Figure]:
    """Compute traced step and GPU busy time relative to the clean step time."""
    step = figures["step_time"]
    share = communication_share(run, traced_steps)
    for metric, source in (("observer_effect", "traced_step_time"), ("busy_of_clean", "gpu_busy")):
        figure = figures[source]
        if source == "gpu_busy" and share > MUCH_COMMUNICATION:
            reason = (
                f"{format_percent(share)} of the traced GPU busy time is communication, which "
                "waits for other ranks, and waits less without the profiler"
            )
            yield absent(metric, Missing(Fact.GPU_WORK, reason))
        elif figure.value is None or not step.value:
            zero = Missing(Fact.STEP_TIMES, "the step time is 0")
            yield absent(metric, figure.missing or step.missing or zero)
        else:
            yield present(metric, figure.value / step.value)


def one_off_figure(run: Run, step: Figure) -> Figure:
    """Compute the one-off cost of the run's graphs; ``step`` is its clean step time."""
    if run.clean is None or not run.clean.graphs:
        return absent("one_off_cost", why_missing(run, Fact.GRAPH_COSTS))
    if step.value is None:
        return absent("one_off_cost", step.missing or why_missing(run, Fact.STEP_TIMES))
    cost = one_off_cost(run.mode, run.clean, step.value)
    if isinstance(cost, Missing):
        return absent("one_off_cost", cost)
    return present("one_off_cost", cost)


def equation_figures(run: Run, equation: Waterfall | Missing) -> Iterator[Figure]:
    """Compute the EQUATION metrics, which refer to clean steps."""
    if not isinstance(equation, Missing) and equation.basis is not Basis.CLEAN:
        equation = why_missing(run, Fact.STEP_TIMES)
    parts = {} if isinstance(equation, Missing) else dict(equation.saved.items())
    for metric, cause in zip(EQUATION, Cause, strict=True):
        if isinstance(equation, Missing):
            yield absent(metric, equation)
        elif cause is Cause.RANKS and run.manifest.rank_of_several is None:
            reason = "the run used one process, so it has no other rank to wait for"
            yield absent(metric, Missing(Fact.OTHER_RANKS, reason))
        else:
            yield present(metric, parts[cause])
