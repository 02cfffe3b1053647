"""Graph family and its recommended sizes on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.cli.text.brief import is_brief
from graphviz_dash.cli.text.output import (
    create_table,
    print_heading,
    print_rows,
    print_table,
    print_text,
)
from graphviz_dash.features.ladder.analysis.coverage import Coverage
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.narrative import (
    describe_advice,
    describe_bound,
    describe_ceiling,
    describe_coverage,
    describe_fastest,
    describe_interpolation,
    describe_losses,
    describe_memory_method,
    describe_real_sizes,
    format_sizes,
    list_coverage_options,
    list_member_columns,
    list_mode_columns,
    list_set_rows,
    list_sets,
    list_size_options,
    summarize_loop,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.columns import lower_first_letter
from graphviz_dash.narrative.engine_steps import describe_eager_steps


def print_ladder(
    report: LoopReport,
    family: FamilyReport,
    advice: LadderAdvice | Missing,
    coverage: Coverage | None,
    count: int,
) -> None:
    """Print the advice, and ``count`` graphs by size."""
    if coverage is not None and coverage.is_worthwhile:
        click.echo(describe_coverage(family, coverage))
        _print_options(list_coverage_options(report, family, coverage))
    if not isinstance(advice, Missing):
        click.echo(describe_advice(advice))
    click.echo(summarize_loop(report))
    if report.engine is not None or not is_brief():
        _print_modes(report)
    if len(report.families) > 1:
        others = [other.family.name for other in report.families if other is not family]
        print_text(f"Family {family.family.name}; other families: {', '.join(others)}.")
    for sentence in (describe_real_sizes(family), describe_losses(family)):
        if sentence:
            click.echo(sentence)
    click.echo()
    if isinstance(advice, Missing):
        print_text(f"No recommendation: {advice.reason}.")
    else:
        _print_advice(report, family, advice, coverage)
        click.echo(describe_memory_method(family.node_bytes, family.pool))
    if count:
        _print_members(family, count)


def _print_modes(report: LoopReport) -> None:
    """Print the modes, and the reasons for steps without a graph."""
    click.echo()
    print_rows(list_mode_columns(report), report.modes)
    for sentence in describe_eager_steps(report):
        click.echo(sentence)
    click.echo()


def _print_options(options: Sequence[str]) -> None:
    """Print the options to paste; only those of the command line in a brief answer."""
    for option in options[-1:] if is_brief() else options:
        click.echo(f"  {option}")


def _print_advice(
    report: LoopReport, family: FamilyReport, advice: LadderAdvice, coverage: Coverage | None
) -> None:
    for sentence in (
        describe_fastest(advice),
        describe_interpolation(advice),
        describe_ceiling(advice),
        "" if coverage is None or coverage.is_worthwhile else describe_coverage(family, coverage),
        describe_bound(advice),
    ):
        if sentence:
            click.echo(sentence)
    click.echo()
    names = [name for name, _, _ in list_sets(advice)]
    table = create_table("", *names, right=range(1, 4))
    for name, values in list_set_rows(advice).items():
        is_part = name.startswith("of which")
        heading = f"  {name}" if is_part else lower_first_letter(name)
        table.add_row(heading, *values)
    print_table(table)
    click.echo()
    click.echo(f"Recommended sizes: {format_sizes(advice.smallest.sizes)}")
    _print_options(list_size_options(report, family, advice.smallest.sizes))


def _print_members(family: FamilyReport, count: int) -> None:
    print_heading(f"Graphs of {family.family.name}")
    print_rows(list_member_columns(family.family), family.members[:count])
    if count < len(family.members):
        click.echo(f"  {count} of {len(family.members):,} by size; --list shows more")
