"""Metric families, in order of dependency. To add one, add a row to FAMILIES."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from graphviz_dash.analysis.comparison.recorded_figures import compute_program_metrics
from graphviz_dash.analysis.comparison.relative_metrics import (
    compute_compile_metrics,
    compute_relative_metrics,
    compute_waterfall_metrics,
)
from graphviz_dash.analysis.memory.report import (
    compute_pool_metrics,
    compute_relative_memory_metrics,
)
from graphviz_dash.analysis.metrics.graph_coverage import Coverage
from graphviz_dash.analysis.metrics.recorded_step import StepStatistic
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.analysis.metrics.run_metrics import (
    MetricValue,
    compute_coverage_metrics,
    compute_graph_costs,
    compute_machine_metrics,
    compute_memory_metrics,
    compute_one_off_metric,
    compute_step_metrics,
    compute_throughput,
    compute_traced_metrics,
    compute_traced_ratios,
    count_graph_objects,
)
from graphviz_dash.analysis.prediction.evaluation import compute_prediction_metrics
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.step_comparison.waterfall import Waterfall
from graphviz_dash.analysis.trace.integrity import TraceIntegrity
from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run


class MetricInputs(Struct, frozen=True):
    """Inputs for the metrics of one run."""

    run: Run
    baseline: Run | Missing
    compiled_run: Run | Missing
    """The same run compiled without graphs."""
    traced_steps: tuple[Step, ...]
    """Steps of the replay trace; empty without a trace."""
    integrity: TraceIntegrity | None
    """Completeness of the replay trace; None without a trace."""
    coverage: Coverage | Missing
    """Share of the traced steps that ran from graphs."""
    waterfall: Waterfall | Missing
    """Breakdown of the difference from the baseline."""
    prediction: Prediction | Missing
    """Prediction from the baseline alone."""
    recorded_statistic: StepStatistic
    """Statistic that compares recorded runs of the experiment."""


MetricsById: TypeAlias = Mapping[str, MetricValue]
"""Metrics of earlier families by id."""

METRIC_FAMILIES: Final[tuple[Callable[[MetricInputs, MetricsById], Iterable[MetricValue]], ...]] = (
    lambda of, _: compute_step_metrics(of.run),
    lambda of, _: compute_machine_metrics(of.run),
    lambda of, _: compute_graph_costs(of.run),
    lambda of, _: compute_memory_metrics(of.run),
    lambda of, _: compute_traced_metrics(of.run, of.traced_steps, of.integrity),
    lambda of, _: compute_coverage_metrics(of.coverage),
    lambda of, _: count_graph_objects(of.run),
    lambda of, done: compute_traced_ratios(of.run, done, of.traced_steps),
    lambda of, done: (compute_one_off_metric(of.run, done["step_time"]),),
    lambda of, done: compute_throughput(of.run, done["step_interval"]),
    lambda of, _: compute_pool_metrics(of.run),
    lambda of, _: compute_relative_memory_metrics(of.run, of.baseline),
    lambda of, _: compute_program_metrics(of.run, of.baseline, of.recorded_statistic),
    lambda of, done: compute_relative_metrics(of.run, of.baseline, done["one_off_cost"]),
    lambda of, _: compute_compile_metrics(of.run, of.baseline, of.compiled_run),
    lambda of, _: compute_waterfall_metrics(of.run, of.waterfall),
    lambda of, done: compute_prediction_metrics(of.prediction, done["step_time"]),
)


def compute_metrics(inputs: MetricInputs) -> dict[str, MetricValue]:
    """Compute every metric of the registry, by id and in registry order."""
    figures: dict[str, MetricValue] = {}
    for family in METRIC_FAMILIES:
        figures |= {figure.metric.id: figure for figure in family(inputs, figures)}
    return {metric: figures[metric] for metric in METRICS}
