"""Metrics of a recorded program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphviz_dash.analysis.comparison.recorded_figures import recorded_figures, recorded_relative
from graphviz_dash.analysis.loop.loop_metrics import loop_figures

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.run_metrics import Figure
    from graphviz_dash.model.absence import Missing
    from graphviz_dash.model.run import Run


def program_figures(run: Run, against: Run | Missing) -> Iterator[Figure]:
    """Compute step metrics, relative metrics and graph family metrics."""
    yield from recorded_figures(run)
    yield from recorded_relative(run, against)
    yield from loop_figures(run)
