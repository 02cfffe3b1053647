"""torch.compile results of a run, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.cli.text.output import (
    ABSENT_TEXT,
    build_cell,
    create_table,
    print_heading,
    print_table,
    print_text,
)
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.program_tree import ProgramTree, TreeBox
from graphviz_dash.features.torch_compile.analysis.report import CompileReport
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import CompileRuleOutcome
from graphviz_dash.features.torch_compile.narrative import (
    SAVING_METHOD,
    STEP_TIME_METHOD,
    format_saving,
    get_cause_location,
    get_cause_title,
    name_step,
    summarize_compilation,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compile_rules import COMPILE_RULES
from graphviz_dash.model.doctor import CheckStatus
from graphviz_dash.units import format_ns, format_percent, pluralize

_MAX_BOXES = 60
_MAX_SUMMARY_CAUSES = 4
_OUTCOMES = {
    CheckStatus.FOUND: "broken",
    CheckStatus.PASSED: "passed",
    CheckStatus.NOT_CHECKED: "not checked",
}


def print_compiled(report: CompileReport, count: int) -> None:
    """Print the breakdown, ``count`` causes and the program tree."""
    click.echo(summarize_compilation(report))
    _print_parts(report)
    print_causes(report.causes, count)
    _print_tree(report.tree)
    missing = [source for source in report.compilation.sources if source.missing_reason]
    if missing:
        print_heading("Missing data")
        for source in missing:
            print_text(f"  {source.fact.value}: {source.missing_reason}")


def print_compiled_summary(report: CompileReport) -> None:
    """Print the breakdown and the first causes in short."""
    click.echo(summarize_compilation(report))
    _print_parts(report, method=False)
    if not report.causes:
        return
    print_heading("Fix first")
    for number, cause in enumerate(report.causes[:_MAX_SUMMARY_CAUSES], start=1):
        location = get_cause_location(cause)
        head = f"{number}. {get_cause_title(cause)}" + (f"  {location}" if location else "")
        print_text(head)
        print_text(f"   saves    {format_saving(cause)}")
        click.echo(f"   instead  {COMPILE_RULES[cause.rule].advice}")
    if len(report.causes) > _MAX_SUMMARY_CAUSES:
        click.echo(f"  and {len(report.causes) - _MAX_SUMMARY_CAUSES} more")


def _print_parts(report: CompileReport, *, method: bool = True) -> None:
    time, step_ns = report.time, report.step_ns
    if isinstance(time, Missing):
        print_text(f"Step time breakdown is not available: {time.reason}.")
        return
    total_ns = time.select_total_ns(step_ns)
    print_heading("Step time breakdown")
    table = create_table("", "time", "share of step", "GPU busy", right=(1, 2, 3))
    for part in StepPart:
        parts = [time_part for time_part in time.parts if time_part.part is part]
        part_ns = sum(time.compute_clean_ns(time_part, total_ns) for time_part in parts)
        if not parts:
            continue
        table.add_row(
            part.value,
            format_ns(part_ns),
            format_percent(part_ns / total_ns if total_ns else 0.0),
            format_ns(sum(time_part.busy_ns for time_part in parts)),
        )
    remainder_ns = time.compute_remainder_ns(total_ns)
    table.add_row("remainder", format_ns(remainder_ns), "", "")
    table.add_section()
    table.add_row(
        build_cell(name_step(report), "bold"), build_cell(format_ns(total_ns), "bold"), "", ""
    )
    print_table(table)
    if not method:
        return
    click.echo()
    if isinstance(step_ns, Missing):
        print_text(f"Profiled times: no clean step time is available ({step_ns.reason}).")
    else:
        click.echo(f"{STEP_TIME_METHOD}.")


def print_causes(causes: Sequence[CompileCause], count: int) -> None:
    """Print ``count`` causes, largest saving first."""
    if not causes:
        return
    print_heading("torch.compile: top fixes")
    for number, cause in enumerate(causes[:count], start=1):
        _print_cause(number, cause)
    if len(causes) > count:
        click.echo(f"  and {len(causes) - count} more")
    if any(cause.gain_range is not None for cause in causes[:count]):
        click.echo(f"{SAVING_METHOD}.")


def print_rules(outcomes: Sequence[CompileRuleOutcome]) -> None:
    """Print the outcome of each torch.compile rule."""
    print_heading("torch.compile rules")
    table = create_table("rule", "outcome", "")
    for outcome in outcomes:
        note = outcome.reason or (pluralize(outcome.causes, "cause") if outcome.causes else "")
        table.add_row(outcome.rule.id.value, _OUTCOMES[outcome.status], note)
    print_table(table)


def _print_cause(number: int, cause: CompileCause) -> None:
    rule = COMPILE_RULES[cause.rule]
    location = get_cause_location(cause)
    head = f"{number}. {get_cause_title(cause)}" + (f"  {location}" if location else "")
    print_text(head)
    if cause.lines and cause.lines[0].code:
        print_text(f"     {cause.lines[0].code}")
    print_text(f"   saves    {format_saving(cause)}")
    if cause.one_time_ns:
        click.echo(
            f"   cost     {format_ns(cause.one_time_ns)} one-time, in "
            f"{pluralize(cause.count, 'compilation')}"
        )
    print_text(f"   torch    {cause.reason}")
    for detail in cause.details[:4]:
        print_text(f"            {detail}")
    print_text(f"   instead  {rule.advice}")
    for line in rule.right.splitlines():
        click.echo(f"            {line}")


def _print_tree(tree: ProgramTree) -> None:
    if not tree.roots:
        return
    print_heading("Compiled program")
    waiting: list[tuple[TreeBox, int]] = [(box, 0) for box in reversed(tree.roots)]
    line_count = 0
    while waiting and line_count < _MAX_BOXES:
        box, depth = waiting.pop()
        duration = ABSENT_TEXT if box.total_ns is None else format_ns(box.total_ns)
        line = f"  {box.line.text}" if box.line is not None else ""
        broken = f"  [{len(box.causes)} to fix]" if box.causes and not box.children else ""
        print_text(f"{'  ' * depth}{box.kind.value} {box.title}{line}  {duration}{broken}")
        line_count += 1
        waiting.extend((child, depth + 1) for child in reversed(box.children))
    if waiting:
        click.echo(f"and {tree.boxes - line_count} more (--json has all)")
