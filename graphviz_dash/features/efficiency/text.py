"""Distance from the hardware limit on the terminal."""

from __future__ import annotations

from typing import Final

import click

from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_heading,
    print_more,
    print_table,
    shorten,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    GroupKey,
    group_limits,
)
from graphviz_dash.features.efficiency.narrative import (
    LIMIT_METHOD,
    REMEDY_INSTRUCTIONS,
    describe_ceilings,
    describe_efficiency,
    describe_missing_shapes,
    describe_programmatic,
    describe_unknown,
    format_advice_title,
    format_range,
    format_term,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_count, format_ns, format_percent

_BRIEF_GROUPS: Final = 8
_BRIEF_ADVICE: Final = 4
_NAME_LENGTH: Final = 36


def print_efficiency(report: EfficiencyReport, key: GroupKey, *, everything: bool) -> None:
    """Print result, groups, recommendations and, with ``everything``, all operator calls."""
    click.echo(escape_control_characters(describe_efficiency(report)))
    unknown = describe_unknown(report)
    if unknown is not None:
        click.echo(escape_control_characters(unknown))
    shapes = describe_missing_shapes(report)
    if shapes is not None:
        click.echo(shapes)
    if not isinstance(report.choice, Missing):
        click.echo(escape_control_characters(describe_ceilings(report.choice)))
    _print_groups(report, key, everything=everything)
    _print_advice(report, everything=everything)
    if everything:
        programmatic = describe_programmatic(report)
        if programmatic is not None:
            print_heading("Programmatic launch")
            click.echo(programmatic)
        _print_calls(report)
        click.echo()
        click.echo(LIMIT_METHOD)


def _print_groups(report: EfficiencyReport, key: GroupKey, *, everything: bool) -> None:
    groups = group_limits(report, key)
    print_heading(f"Time above the limit by {key.value}")
    table = create_table(key.value, "kernels", "time", "above", "share", right=range(1, 5))
    rows = groups if everything else groups[:_BRIEF_GROUPS]
    for group in rows:
        has_limit = group.unknown_ns < group.time_ns
        table.add_row(
            build_cell(group.name if everything else shorten(group.name, _NAME_LENGTH)),
            build_cell(format_count(group.kernels)),
            build_cell(format_ns(group.time_ns)),
            build_cell(format_ns(group.above_ns if has_limit else None)),
            build_cell(
                format_percent(group.above_ns / report.above_ns)
                if has_limit and report.above_ns
                else "–"
            ),
        )
    print_table(table)
    print_more(len(groups), len(rows))


def _print_advice(report: EfficiencyReport, *, everything: bool) -> None:
    if not report.advice:
        return
    print_heading("Predicted savings per replay")
    rows = report.advice if everything else report.advice[:_BRIEF_ADVICE]
    for number, advice in enumerate(rows, start=1):
        saving = f"{format_ns(advice.saving_ns)} ({format_range(advice)})"
        head = f"{number}. {saving}: {format_advice_title(advice)}"
        location = f" at {advice.source}" if advice.source else ""
        click.echo(escape_control_characters(head + location))
        click.echo(f"   {REMEDY_INSTRUCTIONS[advice.remedy]}")
    print_more(len(report.advice), len(rows))


def _print_calls(report: EfficiencyReport) -> None:
    print_heading("Operator calls")
    table = create_table(
        "node", "operator", "kernel", "time", "limit", "share", "limited by", right=(0, 3, 4, 5)
    )
    for limit in sorted(report.limits, key=lambda entry: -entry.above_ns):
        item = report.items[limit.unit.items[0]]
        operator = (item.origin.call_operator or item.origin.op) if item.origin else None
        table.add_row(
            build_cell(format_count(item.index)),
            build_cell(operator or ""),
            build_cell(shorten(limit.name, 60)),
            build_cell(format_ns(limit.time_ns)),
            build_cell(format_ns(limit.limit_ns)),
            build_cell(format_percent(limit.share)),
            build_cell(format_term(limit)),
        )
    print_table(table)
