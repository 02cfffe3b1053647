"""Build the JSON of metric values: nanoseconds, bytes, counts and fractions of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.exports.documents.values import FilePath, Sentence, get_reason, simplify_number


class SpreadDocument(TypedDict):
    """Spread of the samples, in the unit of the value."""

    low: float | None
    high: float | None
    kind: str
    samples: int
    processes: int


FigureDocument = TypedDict(
    "FigureDocument",
    {
        "value": float | None,
        "unit": str,
        "pass": str,
        "spread": SpreadDocument | None,
        "reason": Sentence | None,
    },
)
# Functional syntax because "pass" is a keyword. A null value has a reason.


def build_figure_document(figure: MetricValue) -> FigureDocument:
    """Build the document of one metric value."""
    spread = figure.spread
    return {
        "value": simplify_number(figure.value),
        "unit": figure.metric.unit.value,
        "pass": figure.metric.source.value,
        "spread": {
            "low": simplify_number(spread.low),
            "high": simplify_number(spread.high),
            "kind": spread.kind.value,
            "samples": spread.samples,
            "processes": spread.processes,
        }
        if spread is not None
        else None,
        "reason": get_reason(figure.missing),
    }


def build_figures_document(figures: Iterable[MetricValue]) -> dict[str, FigureDocument]:
    """Build the documents of metric values, by metric id."""
    return {figure.metric.id: build_figure_document(figure) for figure in figures}


class ExperimentDocument(TypedDict):
    """Which experiment."""

    name: str
    path: FilePath
