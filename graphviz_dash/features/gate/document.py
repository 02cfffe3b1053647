"""Build the JSON of ``graphviz-dash gate``."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.exports.documents.values import Sentence, simplify_number
from graphviz_dash.features.gate.gate import GateResult
from graphviz_dash.features.gate.gated import MetricChange


class GatedMetricDocument(TypedDict):
    """A metric of a run compared with its baseline."""

    run: str
    metric: str
    key: str | None
    unit: str
    before: float | None
    current: float | None
    change: float | None
    low: float | None
    high: float | None
    exact: bool
    verdict: str


class BrokenRunDocument(TypedDict):
    """A run that failed or is missing."""

    run: str
    text: Sentence


class GateDocument(TypedDict):
    """Regression check of an experiment against its baseline."""

    passed: bool
    limit: float
    experiment: str
    baseline: str
    recordings: int
    metrics: list[GatedMetricDocument]
    failed_runs: list[BrokenRunDocument]
    differences: list[Sentence]
    notes: list[Sentence]
    host: Sentence | None


def build_gate_document(result: GateResult) -> GateDocument:
    """Build the document of a regression check."""
    return {
        "passed": result.passed,
        "limit": result.limit,
        "experiment": result.experiment,
        "baseline": result.baseline,
        "recordings": result.recordings,
        "metrics": [_build_gated_metric_document(figure) for figure in result.changes],
        "failed_runs": [{"run": broken.run, "text": broken.text} for broken in result.failures],
        "differences": list(result.differences),
        "notes": list(result.notes),
        "host": result.host_warning,
    }


def _build_gated_metric_document(figure: MetricChange) -> GatedMetricDocument:
    return {
        "run": figure.run,
        "metric": figure.metric.id,
        "key": figure.key,
        "unit": figure.metric.unit.value,
        "before": simplify_number(figure.baseline),
        "current": simplify_number(figure.current),
        "change": figure.change,
        "low": figure.low,
        "high": figure.high,
        "exact": figure.is_exact,
        "verdict": figure.verdict.value,
    }
