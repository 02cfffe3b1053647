"""Metrics of a recorded program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphviz_dash.analysis.comparison.recorded_figures import (
    compute_recorded_metrics,
    compute_relative_recorded_metrics,
)
from graphviz_dash.analysis.loop.loop_metrics import compute_loop_metrics

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.run_metrics import MetricValue
    from graphviz_dash.model.absence import Missing
    from graphviz_dash.model.run import Run


def compute_program_metrics(run: Run, baseline: Run | Missing) -> Iterator[MetricValue]:
    """Compute step metrics, relative metrics and graph family metrics."""
    yield from compute_recorded_metrics(run)
    yield from compute_relative_recorded_metrics(run, baseline)
    yield from compute_loop_metrics(run)
