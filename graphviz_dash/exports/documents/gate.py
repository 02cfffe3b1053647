"""The JSON of ``graphviz-dash gate``."""

from __future__ import annotations

from graphviz_dash.analysis.comparison.gate import GatedFigure, GateResult
from graphviz_dash.exports.documents.values import number


def gate_document(result: GateResult) -> dict[str, object]:
    """Whether an experiment passed, each gated metric, and what could not be gated."""
    return {
        "passed": result.passed,
        "limit": result.limit,
        "experiment": result.experiment,
        "baseline": result.baseline,
        "recordings": result.recordings,
        "figures": [_gated_document(figure) for figure in result.figures],
        "broken": [{"run": broken.run, "text": broken.text} for broken in result.broken],
        "differences": list(result.differences),
        "notes": list(result.notes),
        "host": result.host,
    }


def _gated_document(figure: GatedFigure) -> dict[str, object]:
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
