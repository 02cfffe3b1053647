"""Doctor findings on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.analysis.doctor import Diagnosis
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.cli.text.output import cell, plain_table, print_heading, print_table
from graphviz_dash.errors import printable
from graphviz_dash.features.prediction.text import print_blockers
from graphviz_dash.model.doctor import CheckStatus, CodePlace, Finding
from graphviz_dash.model.rules import RULES
from graphviz_dash.narrative.doctor import difference_text, evidence_text, verdict_text


def print_diagnosis(name: str | None, diagnosis: Diagnosis) -> None:
    """Print the findings of one process, under its ``name`` if there are several."""
    if name is not None:
        print_heading(name)
    click.echo(printable(verdict_text(diagnosis)))
    for number, finding in enumerate(diagnosis.findings, 1):
        _print_finding(number, finding)
    outputs = diagnosis.report.outputs
    if outputs:
        print_heading("After a replay, compared with an eager step from the same state")
        table = plain_table("tensor", "shape", "difference")
        for check in outputs[:8]:
            shape = f"{check.dtype} {list(check.shape)}"
            table.add_row(cell(check.name), cell(shape), cell(difference_text(check)))
        print_table(table)
    print_heading("Rules")
    table = plain_table("rule", "outcome", "")
    for outcome in diagnosis.checked:
        word = "broken" if outcome.status is CheckStatus.FOUND else "passed"
        note = outcome.reason or (f"{outcome.findings} found" if outcome.findings else "")
        table.add_row(cell(outcome.rule.id.value), cell(word), cell(note))
    for group in diagnosis.unchecked:
        named = group.outcomes[0].rule.id.value
        if len(group.outcomes) > 1:
            named = f"{len(group.outcomes)} rules"
        table.add_row(cell(named), cell("not checked"), cell(group.reason))
    print_table(table)


def print_traced(prediction: Prediction) -> None:
    """Print the blockers in the eager trace of a run without a doctor report."""
    click.echo("No doctor report for this run. Blockers in the trace of its eager steps:")
    print_blockers(prediction)


def _print_finding(number: int, finding: Finding) -> None:
    rule = RULES[finding.rule]
    first = ", the first illegal call" if finding.first else ""
    print_heading(f"{number}. {finding.severity.value}: {rule.title} [{rule.id.value}]{first}")
    if finding.place is not None:
        function = f" in {finding.place.function}" if finding.place.function else ""
        click.echo(printable(f"   {finding.place.text}{function}"))
        _print_code(finding.place)
    parts = [("op", finding.op), ("stream", finding.stream), ("thread", finding.thread)]
    context = ", ".join(f"{label} {value}" for label, value in parts if value)
    if finding.calls is not None and finding.calls > 1:
        context += f", {finding.calls:,} times per step"
    if context:
        click.echo(printable(f"   {context}"))
    if finding.message:
        click.echo(printable(f"   error: {finding.message}"))
    for evidence in finding.evidence:
        click.echo(printable(f"   {evidence.name}: {evidence_text(evidence)}"))
    click.echo(f"   fix: {rule.advice}")


def _print_code(location: CodePlace) -> None:
    for number, line in enumerate(location.lines, location.first):
        mark = ">" if number == location.line else " "
        click.echo(printable(f"   {mark} {number:>5}  {line}").rstrip())
