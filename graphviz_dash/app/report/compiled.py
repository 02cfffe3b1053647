"""Render the torch.compile sections of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphviz_dash.app.report.report_tables import html_text
from graphviz_dash.features.torch_compile.analysis.report import CompileReport, compile_report
from graphviz_dash.features.torch_compile.narrative import (
    cause_place,
    cause_title,
    compile_sentence,
    saving_text,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compile_rules import COMPILE_RULES
from graphviz_dash.model.run import Run

_MOST = 12


def compile_sections(runs: Iterable[Run]) -> Iterator[str]:
    """Generate a section for each run with recorded compilation data."""
    for run in runs:
        if run.compilation is None:
            continue
        report = compile_report(run)
        if not isinstance(report, Missing):
            yield f"<h2>torch.compile: {html_text(run.name)}</h2>"
            yield f"<p>{html_text(compile_sentence(report))}</p>"
            yield _causes(report)


def _causes(report: CompileReport) -> str:
    if not report.causes:
        return ""
    rows = "".join(
        f"<tr><th>{html_text(cause_title(cause))}</th><td><code>{html_text(cause_place(cause))}"
        f"</code></td><td>{html_text(saving_text(cause))}</td><td>{html_text(cause.reason)}</td>"
        f"<td>{html_text(COMPILE_RULES[cause.rule].advice)}</td></tr>"
        for cause in report.causes[:_MOST]
    )
    head = "".join(
        f"<th>{title}</th>" for title in ("Fix", "Line", "Saving", "torch reports", "Instead")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
