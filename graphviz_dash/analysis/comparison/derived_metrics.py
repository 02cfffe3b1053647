"""Metrics derived from other metrics or from the waterfall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.metrics.low_confidence import compute_communication_share
from graphviz_dash.analysis.metrics.run_metrics import (
    MetricValue,
    compute_one_off_cost,
    make_missing_value,
    make_value,
)
from graphviz_dash.analysis.metrics.thresholds import MUCH_COMMUNICATION
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Cause, Waterfall
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.units import format_percent

if TYPE_CHECKING:
    from graphviz_dash.analysis.trace.steps import Step
    from graphviz_dash.model.run import Run

WATERFALL_METRICS = (
    "gaps_removed",
    "kernel_change",
    "copy_change",
    "overlap_change",
    "synchronisation_removed",
    "rank_wait_removed",
    "remainder",
)
"""Waterfall metrics, in the order of waterfall.Cause; they need a baseline."""


def compute_traced_ratios(
    run: Run, metrics: Mapping[str, MetricValue], traced_steps: tuple[Step, ...]
) -> Iterator[MetricValue]:
    """Compute traced step and GPU busy time relative to the clean step time."""
    step = metrics["step_time"]
    share = compute_communication_share(run, traced_steps)
    for metric, source in (("observer_effect", "traced_step_time"), ("busy_of_clean", "gpu_busy")):
        figure = metrics[source]
        if source == "gpu_busy" and share > MUCH_COMMUNICATION:
            reason = (
                f"{format_percent(share)} of the traced GPU busy time is communication, which "
                "waits for other ranks, and waits less without the profiler"
            )
            yield make_missing_value(metric, Missing(Fact.GPU_WORK, reason))
        elif figure.value is None or not step.value:
            zero = Missing(Fact.STEP_TIMES, "the step time is 0")
            yield make_missing_value(metric, figure.missing or step.missing or zero)
        else:
            yield make_value(metric, figure.value / step.value)


def compute_one_off_metric(run: Run, step: MetricValue) -> MetricValue:
    """Compute the one-off cost of the run's graphs; ``step`` is its clean step time."""
    if run.clean is None or not run.clean.graphs:
        return make_missing_value("one_off_cost", explain_missing(run, Fact.GRAPH_COSTS))
    if step.value is None:
        return make_missing_value(
            "one_off_cost", step.missing or explain_missing(run, Fact.STEP_TIMES)
        )
    cost = compute_one_off_cost(run.mode, run.clean, step.value)
    if isinstance(cost, Missing):
        return make_missing_value("one_off_cost", cost)
    return make_value("one_off_cost", cost)


def compute_waterfall_metrics(run: Run, waterfall: Waterfall | Missing) -> Iterator[MetricValue]:
    """Compute the EQUATION metrics, which refer to clean steps."""
    if not isinstance(waterfall, Missing) and waterfall.basis is not Basis.CLEAN:
        waterfall = explain_missing(run, Fact.STEP_TIMES)
    parts = {} if isinstance(waterfall, Missing) else dict(waterfall.saved.list_items())
    for metric, cause in zip(WATERFALL_METRICS, Cause, strict=True):
        if isinstance(waterfall, Missing):
            yield make_missing_value(metric, waterfall)
        elif cause is Cause.RANKS and run.manifest.job_rank is None:
            reason = "the run used one process, so it has no other rank to wait for"
            yield make_missing_value(metric, Missing(Fact.OTHER_RANKS, reason))
        else:
            yield make_value(metric, parts[cause])
