"""Build the JSON of metric values: nanoseconds, bytes, counts and fractions of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.exports.documents.values import FilePath, Sentence, number, reason_of


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


def figure_document(figure: Figure) -> FigureDocument:
    """Build the document of one metric value."""
    spread = figure.spread
    return {
        "value": number(figure.value),
        "unit": figure.metric.unit.value,
        "pass": figure.metric.source.value,
        "spread": {
            "low": number(spread.low),
            "high": number(spread.high),
            "kind": spread.kind.value,
            "samples": spread.samples,
            "processes": spread.processes,
        }
        if spread is not None
        else None,
        "reason": reason_of(figure.missing),
    }


def figures_document(figures: Iterable[Figure]) -> dict[str, FigureDocument]:
    """Build the documents of metric values, by metric id."""
    return {figure.metric.id: figure_document(figure) for figure in figures}


class ExperimentDocument(TypedDict):
    """Which experiment."""

    name: str
    path: FilePath
