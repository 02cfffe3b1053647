"""JSON of ``graphviz-dash gate``."""

from __future__ import annotations

from msgspec import field

from graphviz_dash.exports.documents.values import Document, Number, Sentence, build
from graphviz_dash.features.gate.gate import GateResult


class GatedMetricDocument(Document, frozen=True):
    """A metric of a run compared with its baseline."""

    run: str
    metric: str
    key: str | None
    unit: str
    baseline: Number | None = field(name="before")
    current: Number | None
    change: float | None
    low: float | None
    high: float | None
    is_exact: bool = field(name="exact")
    verdict: str


class BrokenRunDocument(Document, frozen=True):
    """A run that failed or is missing."""

    run: str
    text: Sentence


class GateDocument(Document, frozen=True):
    """Regression check of an experiment against its baseline."""

    passed: bool
    limit: float
    experiment: str
    baseline: str
    recordings: int
    metrics: list[GatedMetricDocument]
    failures: list[BrokenRunDocument] = field(name="failed_runs")
    differences: list[Sentence]
    notes: list[Sentence]
    host_warning: Sentence | None = field(name="host")


def build_gate_document(result: GateResult) -> GateDocument:
    """Build the document of a regression check."""
    return build(
        GateDocument,
        result,
        metrics=[
            build(GatedMetricDocument, row, metric=row.metric.id, unit=row.metric.unit)
            for row in result.changes
        ],
    )
