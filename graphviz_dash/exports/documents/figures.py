"""Figures as JSON: raw values, nanoseconds, bytes, counts and fractions of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.exports.documents.values import FilePath, Sentence, number, reason_of


class SpreadDocument(TypedDict):
    """How far the samples of a value lie apart, in the unit of the value."""

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
# A functional definition, for "pass" is a keyword. The value is null with a reason.


def figure_document(figure: Figure) -> FigureDocument:
    """One figure: value, unit, pass, spread, reason."""
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
    """Figures by the id of their metric."""
    return {figure.metric.id: figure_document(figure) for figure in figures}


class ExperimentDocument(TypedDict):
    """Which experiment."""

    name: str
    path: FilePath
