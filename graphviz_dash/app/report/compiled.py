"""Render the torch.compile sections of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphviz_dash.app.report.report_tables import escape_html
from graphviz_dash.features.torch_compile.analysis.report import CompileReport, build_compile_report
from graphviz_dash.features.torch_compile.narrative import (
    format_saving,
    get_cause_location,
    get_cause_title,
    summarize_compilation,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compile_rules import COMPILE_RULES
from graphviz_dash.model.run import Run

_MAX_CAUSES = 12


def generate_compile_sections(runs: Iterable[Run]) -> Iterator[str]:
    """Generate a section for each run with recorded compilation data."""
    for run in runs:
        if run.compilation is None:
            continue
        report = build_compile_report(run)
        if not isinstance(report, Missing):
            yield f"<h2>torch.compile: {escape_html(run.name)}</h2>"
            yield f"<p>{escape_html(summarize_compilation(report))}</p>"
            yield _format_causes(report)


def _format_causes(report: CompileReport) -> str:
    if not report.causes:
        return ""
    rows = "".join(
        f"<tr><th>{escape_html(get_cause_title(cause))}</th><td><code>{escape_html(get_cause_location(cause))}"
        f"</code></td><td>{escape_html(format_saving(cause))}</td><td>{escape_html(cause.reason)}</td>"
        f"<td>{escape_html(COMPILE_RULES[cause.rule].advice)}</td></tr>"
        for cause in report.causes[:_MAX_CAUSES]
    )
    head = "".join(
        f"<th>{title}</th>" for title in ("Fix", "Line", "Saving", "torch reports", "Instead")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
