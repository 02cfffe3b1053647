"""JSON of metric values: nanoseconds, bytes, counts and fractions of one."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import field

from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.exports.documents.values import Document, FilePath, Number, Sentence, build


class SpreadDocument(Document, frozen=True):
    """Spread of the samples, in the unit of the value."""

    low: Number | None
    high: Number | None
    kind: str
    samples: int
    processes: int


class FigureDocument(Document, frozen=True):
    """A metric value; null has a reason."""

    value: Number | None
    unit: str
    source: str = field(name="pass")
    spread: SpreadDocument | None
    missing_reason: Sentence | None = field(name="reason")


def build_figure_document(figure: MetricValue) -> FigureDocument:
    """Build the document of one metric value."""
    return build(FigureDocument, figure, unit=figure.metric.unit, source=figure.metric.source)


def build_figures_document(figures: Iterable[MetricValue]) -> dict[str, FigureDocument]:
    """Build the documents of metric values, by metric id."""
    return {figure.metric.id: build_figure_document(figure) for figure in figures}


class ExperimentDocument(Document, frozen=True):
    """Which experiment."""

    name: str
    path: FilePath
