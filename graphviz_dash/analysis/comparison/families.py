"""Metric families, in order of dependency. To add one, add a row to FAMILIES."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from graphviz_dash.analysis.comparison.derived_metrics import (
    equation_figures,
    one_off_figure,
    traced_over_clean_figures,
)
from graphviz_dash.analysis.comparison.program_metrics import program_figures
from graphviz_dash.analysis.comparison.relative_metrics import compile_figures, relative_figures
from graphviz_dash.analysis.memory.report import memory_pass_figures
from graphviz_dash.analysis.metrics.machine_state import machine_figures
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.analysis.metrics.run_metrics import (
    Figure,
    coverage_figures,
    graph_figures,
    life_figures,
    memory_figures,
    step_figures,
    traced_figures,
)
from graphviz_dash.analysis.metrics.throughput import throughput_figures
from graphviz_dash.analysis.prediction.evaluation import prediction_figures

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.graph_coverage import Coverage
    from graphviz_dash.analysis.prediction.predict import Prediction
    from graphviz_dash.analysis.step_comparison.waterfall import Waterfall
    from graphviz_dash.analysis.trace.steps import Step
    from graphviz_dash.model.absence import Missing
    from graphviz_dash.model.run import Run


class MetricInputs(Struct, frozen=True):
    """Inputs for the metrics of one run."""

    run: Run
    """The run."""
    against: Run | Missing
    """Baseline of the run."""
    compiled: Run | Missing
    """The same run compiled without graphs."""
    traced_steps: tuple[Step, ...]
    """Steps of the replay trace; empty without a trace."""
    coverage: Coverage | Missing
    """Share of the traced steps that ran from graphs."""
    equation: Waterfall | Missing
    """Breakdown of the difference from the baseline."""
    prediction: Prediction | Missing
    """Prediction from the baseline alone."""


Figures: TypeAlias = Mapping[str, Figure]
"""Metrics of earlier families by id."""

FAMILIES: Final[tuple[Callable[[MetricInputs, Figures], Iterable[Figure]], ...]] = (
    lambda of, _: step_figures(of.run),
    lambda of, _: machine_figures(of.run),
    lambda of, _: life_figures(of.run),
    lambda of, _: memory_figures(of.run),
    lambda of, _: memory_pass_figures(of.run),
    lambda of, _: traced_figures(of.run, of.traced_steps),
    lambda of, _: coverage_figures(of.coverage),
    lambda of, _: graph_figures(of.run),
    lambda of, _: program_figures(of.run, of.against),
    lambda of, done: traced_over_clean_figures(of.run, done, of.traced_steps),
    lambda of, done: (one_off_figure(of.run, done["step_time"]),),
    lambda of, done: throughput_figures(of.run, done["step_interval"]),
    lambda of, done: relative_figures(of.run, of.against, done["one_off_cost"]),
    lambda of, _: compile_figures(of.run, of.against, of.compiled),
    lambda of, _: equation_figures(of.run, of.equation),
    lambda of, done: prediction_figures(of.prediction, done["step_time"]),
)


def figures_of(inputs: MetricInputs) -> dict[str, Figure]:
    """Compute every metric of the registry, by id and in registry order."""
    figures: dict[str, Figure] = {}
    for family in FAMILIES:
        figures |= {figure.metric.id: figure for figure in family(inputs, figures)}
    return {metric: figures[metric] for metric in METRICS}
