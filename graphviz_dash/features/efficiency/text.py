"""Distance from the hardware limit on the terminal."""

from __future__ import annotations

from typing import Final

import click
from msgspec import structs

from graphviz_dash.cli.text.output import print_heading, print_more, print_rows, print_text
from graphviz_dash.features.efficiency.analysis.limits import UnitLimit
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    GroupKey,
    group_limits,
)
from graphviz_dash.features.efficiency.narrative import (
    GRAPH_COLUMNS,
    LIMIT_METHOD,
    REMEDY_INSTRUCTIONS,
    describe_ceilings,
    describe_efficiency,
    describe_missing_shapes,
    describe_programmatic,
    describe_unknown,
    format_advice_title,
    format_range,
    format_savings_heading,
    format_term,
    format_unit,
    list_group_columns,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.columns import COUNT, MICROSECONDS, SHARE, Column
from graphviz_dash.units import format_ns

_BRIEF_GRAPHS: Final = 4
_BRIEF_GROUPS: Final = 8
_BRIEF_ADVICE: Final = 4
_NAME_LENGTH: Final = 36


def print_efficiency(
    report: EfficiencyReport, key: GroupKey, run: Run | None, *, everything: bool
) -> None:
    """Print result, groups, recommendations and, with ``everything``, all operator calls."""
    print_text(describe_efficiency(report))
    unknown = describe_unknown(report)
    if unknown is not None:
        print_text(unknown)
    shapes = describe_missing_shapes(report, run)
    if shapes is not None:
        click.echo(" ".join(filter(None, shapes)))
    if not isinstance(report.choice, Missing):
        print_text(describe_ceilings(report.choice))
    _print_graphs(report, everything=everything)
    _print_groups(report, key, everything=everything)
    _print_advice(report, everything=everything)
    audit = report.programmatic
    programmatic = describe_programmatic(report)
    # A missing wait is an error of the program.
    if programmatic is not None and (everything or (audit is not None and audit.without_wait)):
        print_heading("Programmatic launch")
        click.echo(programmatic)
    if everything:
        _print_calls(report)
        click.echo()
        click.echo(LIMIT_METHOD)


def _print_graphs(report: EfficiencyReport, *, everything: bool) -> None:
    if not report.graphs:
        return
    print_heading(f"Graphs, {format_unit(report)}")
    rows = report.graphs if everything else report.graphs[:_BRIEF_GRAPHS]
    print_rows(GRAPH_COLUMNS, rows)
    print_more(len(report.graphs), len(rows))


def _print_groups(report: EfficiencyReport, key: GroupKey, *, everything: bool) -> None:
    groups = group_limits(report, key)
    has_limits = not isinstance(report.choice, Missing)
    print_heading(f"Time {'above the limit ' if has_limits else ''}by {key.value}")
    rows = groups if everything else groups[:_BRIEF_GROUPS]
    columns = list_group_columns(report, key.value.capitalize())
    if not everything:
        columns[0] = structs.replace(columns[0], limit=_NAME_LENGTH)
    print_rows(columns, rows)
    print_more(len(groups), len(rows))


def _print_advice(report: EfficiencyReport, *, everything: bool) -> None:
    if not report.advice:
        return
    print_heading(format_savings_heading(report))
    rows = report.advice if everything else report.advice[:_BRIEF_ADVICE]
    for number, advice in enumerate(rows, start=1):
        saving = f"{format_ns(advice.saving_ns)} ({format_range(advice)})"
        head = f"{number}. {saving}: {format_advice_title(advice)}"
        location = f" at {advice.source}" if advice.source else ""
        print_text(head + location)
        click.echo(f"   {REMEDY_INSTRUCTIONS[advice.remedy]}")
    print_more(len(report.advice), len(rows))


def _print_calls(report: EfficiencyReport) -> None:
    print_heading("Operator calls")
    limits = sorted(report.limits, key=lambda entry: -entry.above_ns)
    graph: list[Column[UnitLimit]] = [
        Column("Graph", lambda limit: report.items[limit.unit.items[0]].graph)
    ]
    print_rows(
        [
            *(graph if report.graphs else ()),
            Column("Node", lambda limit: report.items[limit.unit.items[0]].index, COUNT),
            Column("Operator", lambda limit: _get_operator(report, limit) or ""),
            Column("Kernel", lambda limit: limit.name, limit=60),
            Column("Time", lambda limit: limit.time_ns, MICROSECONDS),
            Column("Limit", lambda limit: limit.limit_ns, MICROSECONDS),
            Column("Share", lambda limit: limit.share, SHARE),
            Column("Limited by", format_term),
        ],
        limits,
    )


def _get_operator(report: EfficiencyReport, limit: UnitLimit) -> str | None:
    origin = report.items[limit.unit.items[0]].origin
    return (origin.call_operator or origin.op) if origin else None
