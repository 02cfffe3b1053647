"""Render the section about the hardware limit of a report."""

from __future__ import annotations

from collections.abc import Iterator

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.app.report.report_tables import escape_html
from graphviz_dash.features.efficiency.analysis.advice import Advice
from graphviz_dash.features.efficiency.analysis.report import measure_run_efficiency
from graphviz_dash.features.efficiency.narrative import (
    REMEDY_INSTRUCTIONS,
    describe_ceilings,
    describe_efficiency,
    format_advice_title,
    format_range,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_ns

_MAX_NODES = 5_000
_MAX_ADVICE = 8


def generate_efficiency_section(best: RunComparison) -> Iterator[str]:
    """Generate the section of a run whose graph has known limits or recommendations."""
    run = best.run
    if not run.graphs or sum(len(graph.nodes) for graph in run.graphs) > _MAX_NODES:
        return
    pairs = None if isinstance(best.waterfall, Missing) else best.waterfall.pairs
    report = measure_run_efficiency(run, pairs=pairs)
    if isinstance(report, Missing) or not (report.known_ns or report.advice):
        return
    yield f"<h2>Hardware limits: {escape_html(run.name)}</h2>"
    yield f"<p>{escape_html(describe_efficiency(report))}</p>"
    if report.advice:
        yield _format_advice(report.advice[:_MAX_ADVICE])
    if not isinstance(report.choice, Missing):
        yield f'<p class="muted">{escape_html(describe_ceilings(report.choice))}</p>'


def _format_advice(advice: tuple[Advice, ...]) -> str:
    rows = "".join(
        f"<tr><th>{escape_html(format_ns(entry.saving_ns))}</th>"
        f"<td>{escape_html(format_range(entry))}</td>"
        f"<td>{escape_html(format_advice_title(entry))}</td>"
        f"<td><code>{escape_html(entry.source or '')}</code></td>"
        f"<td>{escape_html(REMEDY_INSTRUCTIONS[entry.remedy])}</td></tr>"
        for entry in advice
    )
    titles = ("Saving", "Interval", "By", "Line", "Change")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
