"""torch.compile results of a run, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.cli.text.output import ABSENT, cell, plain_table, print_heading, print_table
from graphviz_dash.errors import printable
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.program_tree import Box, ProgramTree
from graphviz_dash.features.torch_compile.analysis.report import CompileReport
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import CompileRuleOutcome
from graphviz_dash.features.torch_compile.narrative import (
    METHOD,
    SAVING_METHOD,
    cause_place,
    cause_title,
    compile_sentence,
    saving_text,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compile_rules import COMPILE_RULES
from graphviz_dash.model.doctor import CheckStatus
from graphviz_dash.units import counted, format_ns, format_percent

_MOST_BOXES = 60
_OUTCOMES = {
    CheckStatus.FOUND: "broken",
    CheckStatus.PASSED: "passed",
    CheckStatus.NOT_CHECKED: "not checked",
}


def print_compiled(report: CompileReport, count: int) -> None:
    """Print the step time breakdown, ``count`` causes and the program tree."""
    click.echo(compile_sentence(report))
    _print_parts(report)
    print_causes(report.causes, count)
    _print_tree(report.tree)
    missing = [source for source in report.compilation.sources if source.missing]
    if missing:
        print_heading("Missing data")
        for source in missing:
            click.echo(printable(f"  {source.fact.value}: {source.missing}"))


def _print_parts(report: CompileReport) -> None:
    time, step_ns = report.time, report.step_ns
    if isinstance(time, Missing):
        click.echo(printable(f"Step time breakdown is not available: {time.reason}."))
        return
    total_ns = time.traced_ns if isinstance(step_ns, Missing) else step_ns
    print_heading("Step time breakdown")
    table = plain_table("", "time", "share of step", "GPU busy", right=(1, 2, 3))
    for part in StepPart:
        parts = [time_part for time_part in time.parts if time_part.part is part]
        part_ns = sum(time.clean(time_part, total_ns) for time_part in parts)
        if not parts:
            continue
        table.add_row(
            cell(part.value),
            cell(format_ns(part_ns)),
            cell(format_percent(part_ns / total_ns if total_ns else 0.0)),
            cell(format_ns(sum(time_part.busy_ns for time_part in parts))),
        )
    remainder_ns = time.remainder(total_ns)
    table.add_row(cell("remainder"), cell(format_ns(remainder_ns)), cell(""), cell(""))
    table.add_section()
    table.add_row(cell("step", "bold"), cell(format_ns(total_ns), "bold"), cell(""), cell(""))
    print_table(table)
    click.echo()
    if isinstance(step_ns, Missing):
        click.echo(
            printable(f"Profiled times: no clean step time is available ({step_ns.reason}).")
        )
    else:
        click.echo(f"{METHOD}.")


def print_causes(causes: Sequence[CompileCause], count: int) -> None:
    """Print ``count`` causes, largest saving first; nothing if there are none."""
    if not causes:
        return
    print_heading("torch.compile: top fixes")
    for number, cause in enumerate(causes[:count], start=1):
        _print_cause(number, cause)
    if len(causes) > count:
        click.echo(f"  and {len(causes) - count} more")
    if any(cause.saves_range is not None for cause in causes[:count]):
        click.echo(f"{SAVING_METHOD}.")


def print_rules(outcomes: Sequence[CompileRuleOutcome]) -> None:
    """Print the outcome of each torch.compile rule."""
    print_heading("torch.compile rules")
    table = plain_table("rule", "outcome", "")
    for outcome in outcomes:
        note = outcome.reason or (counted(outcome.causes, "cause") if outcome.causes else "")
        table.add_row(cell(outcome.rule.id.value), cell(_OUTCOMES[outcome.status]), cell(note))
    print_table(table)


def _print_cause(number: int, cause: CompileCause) -> None:
    rule = COMPILE_RULES[cause.rule]
    location = cause_place(cause)
    head = f"{number}. {cause_title(cause)}" + (f"  {location}" if location else "")
    click.echo(printable(head))
    if cause.lines and cause.lines[0].code:
        click.echo(printable(f"     {cause.lines[0].code}"))
    click.echo(printable(f"   saves    {saving_text(cause)}"))
    if cause.once_ns:
        click.echo(
            f"   cost     {format_ns(cause.once_ns)} one-time, in "
            f"{counted(cause.times, 'compilation')}"
        )
    click.echo(printable(f"   torch    {cause.reason}"))
    for detail in cause.details[:4]:
        click.echo(printable(f"            {detail}"))
    click.echo(printable(f"   instead  {rule.advice}"))
    for line in rule.right.splitlines():
        click.echo(f"            {line}")


def _print_tree(tree: ProgramTree) -> None:
    if not tree.roots:
        return
    print_heading("Compiled program")
    waiting: list[tuple[Box, int]] = [(box, 0) for box in reversed(tree.roots)]
    shown = 0
    while waiting and shown < _MOST_BOXES:
        box, depth = waiting.pop()
        duration = ABSENT if box.total_ns is None else format_ns(box.total_ns)
        line = f"  {box.line.text}" if box.line is not None else ""
        broken = f"  [{len(box.causes)} to fix]" if box.causes and not box.children else ""
        click.echo(
            printable(f"{'  ' * depth}{box.kind.value} {box.title}{line}  {duration}{broken}")
        )
        shown += 1
        waiting.extend((child, depth + 1) for child in reversed(box.children))
    if waiting:
        click.echo(f"and {tree.boxes - shown} more (--json has all)")
