"""The JSON of ``graphviz-dash gate``."""

from __future__ import annotations

from graphviz_dash.analysis.comparison.gate import GatedFigure
from graphviz_dash.exports.documents.values import number


def gated_document(figure: GatedFigure) -> dict[str, object]:
    """One gated metric: both values, its change and the verdict."""
    return {
        "run": figure.run,
        "metric": figure.metric.id,
        "unit": figure.metric.unit.value,
        "before": number(figure.before),
        "now": number(figure.now),
        "change": figure.change,
        "low": figure.low,
        "high": figure.high,
        "exact": figure.exact,
        "verdict": figure.verdict.value,
    }
