"""Doctor findings on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.analysis.doctor import Diagnosis, FindingGroup
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.cli.text.output import create_table, print_heading, print_table, print_text
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.prediction.text import print_blockers, print_partial_bases
from graphviz_dash.model.doctor import CheckStatus, CodeLocation
from graphviz_dash.model.rules import RULES
from graphviz_dash.narrative.doctor import (
    describe_output_difference,
    format_caller,
    format_doctor_verdict,
    format_evidence_value,
    format_other_places,
)


def print_diagnosis(name: str | None, diagnosis: Diagnosis, *, everything: bool = True) -> None:
    """Print findings, under ``name`` if there are several; ``everything`` adds compared tensors and
    rules."""
    if name is not None:
        print_heading(name)
    print_text(format_doctor_verdict(diagnosis))
    for number, finding_group in enumerate(diagnosis.groups, 1):
        _print_group(number, finding_group)
    if not everything:
        return
    outputs = diagnosis.report.outputs
    if outputs:
        print_heading("After a replay, compared with an eager step from the same state")
        table = create_table("tensor", "shape", "difference")
        for check in outputs[:8]:
            shape = f"{check.dtype} {list(check.shape)}"
            table.add_row(check.name, shape, describe_output_difference(check))
        print_table(table)
    print_heading("Rules")
    table = create_table("rule", "outcome", "")
    for outcome in diagnosis.checked_rules:
        word = "broken" if outcome.status is CheckStatus.FOUND else "passed"
        note = outcome.reason or (f"{outcome.findings} found" if outcome.findings else "")
        table.add_row(outcome.rule.id.value, word, note)
    for group in diagnosis.unchecked_rules:
        named = group.outcomes[0].rule.id.value
        if len(group.outcomes) > 1:
            named = f"{len(group.outcomes)} rules"
        table.add_row(named, "not checked", group.reason)
    print_table(table)


def print_trace_blockers(prediction: Prediction) -> None:
    """Print the blockers of a run without a doctor report."""
    source = "its trace" if prediction.covers_whole_trace else "the trace of its eager steps"
    click.echo(f"No doctor report for this run. Blockers in {source}:")
    print_partial_bases(prediction)
    print_blockers(prediction)


def _print_group(number: int, group: FindingGroup) -> None:
    finding = group.first
    rule = RULES[finding.rule]
    first = ", the first illegal call" if finding.ends_capture else ""
    print_heading(f"{number}. {finding.severity.value}: {rule.title} [{rule.id.value}]{first}")
    if finding.location is not None:
        function = f" in {finding.location.function}" if finding.location.function else ""
        print_text(f"   {finding.location.text}{function}")
        _print_code(finding.location)
    if (caller := format_caller(finding)) is not None:
        print_text(f"   {caller}")
    parts = [("op", finding.op), ("stream", finding.stream), ("thread", finding.thread)]
    context = ", ".join(f"{label} {value}" for label, value in parts if value)
    if finding.calls_per_step is not None and finding.calls_per_step > 1:
        context += f", {finding.calls_per_step:,} times per step"
    if context:
        print_text(f"   {context}")
    if finding.message:
        print_text(f"   error: {finding.message}")
    for evidence in finding.evidence:
        print_text(f"   {evidence.name}: {format_evidence_value(evidence)}")
    if places := format_other_places(group):
        print_text(f"   also at {', '.join(places)}")
    click.echo(f"   fix: {rule.advice}")


def _print_code(location: CodeLocation) -> None:
    for number, line in enumerate(location.lines, location.first_line):
        mark = ">" if number == location.line else " "
        click.echo(escape_control_characters(f"   {mark} {number:>5}  {line}").rstrip())
