"""Graph family and its recommended sizes on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.loop.keys import format_key
from graphviz_dash.cli.text.brief import is_brief
from graphviz_dash.cli.text.output import (
    ABSENT_TEXT,
    build_cell,
    create_table,
    print_heading,
    print_table,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.ladder.analysis.coverage import Coverage
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderCost
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
    format_mode,
    format_mode_spread,
    format_sizes,
    list_sets,
    list_size_options,
    summarize_loop,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.engine_steps import describe_eager_steps, format_size_range
from graphviz_dash.units import (
    format_bytes,
    format_count,
    format_ns,
    format_percent,
    round_significant,
)


def print_ladder(
    report: LoopReport,
    family: FamilyReport,
    advice: LadderAdvice | Missing,
    coverage: Coverage | None,
    count: int,
) -> None:
    """Print the advice for ``family``, and ``count`` of its graphs by size."""
    if coverage is not None and coverage.is_worthwhile:
        click.echo(describe_coverage(family, coverage))
    if not isinstance(advice, Missing):
        click.echo(describe_advice(advice))
    click.echo(summarize_loop(report))
    if report.engine is not None or not is_brief():
        _print_modes(report)
    if len(report.families) > 1:
        others = [other.family.name for other in report.families if other is not family]
        click.echo(
            escape_control_characters(
                f"Family {family.family.name}; other families: {', '.join(others)}."
            )
        )
    for sentence in (describe_real_sizes(family), describe_losses(family)):
        if sentence:
            click.echo(sentence)
    click.echo()
    if isinstance(advice, Missing):
        click.echo(escape_control_characters(f"No recommendation: {advice.reason}."))
    else:
        _print_advice(report, family, advice, coverage)
        click.echo(describe_memory_method(family.node_bytes))
    if count:
        _print_members(family, count)


def _print_modes(report: LoopReport) -> None:
    """Print the steps by phase and mode, and the reasons for steps without a graph."""
    click.echo()
    headings = ("phase", "mode", "steps", "sizes", "median", "p25 to p75", "time")
    table = create_table(*headings, right=range(2, len(headings)))
    for mode in report.modes:
        table.add_row(
            build_cell(mode.phase or ABSENT_TEXT),
            build_cell(format_mode(report, mode)),
            build_cell(format_count(mode.steps)),
            build_cell(format_size_range(mode.sizes)),
            build_cell(format_ns(mode.step_time.median if mode.step_time else None)),
            build_cell(format_mode_spread(mode)),
            build_cell(ABSENT_TEXT if mode.time_share is None else format_percent(mode.time_share)),
        )
    print_table(table)
    for sentence in describe_eager_steps(report):
        click.echo(sentence)
    click.echo()


def _print_options(report: LoopReport, family: FamilyReport, sizes: Sequence[int]) -> None:
    for option in list_size_options(report, family, sizes):
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
    sets = list_sets(advice)
    table = create_table("", *(name for name, _, _ in sets), right=range(1, 4))
    uses = [use for _, _, use in sets]
    rows = {
        "sizes": [format_count(len(sizes)) for _, sizes, _ in sets],
        "GPU time per request": [_format_request_time(advice, use) for use in uses],
        "  of which padding": [format_ns(use.padding_ns / advice.requests) for use in uses],
        "fallbacks": [format_count(round(use.fallbacks)) for use in uses],
        "throughput": [_format_rate(advice, use) for use in uses],
        "memory": [format_bytes(use.memory_bytes) for use in uses],
        "startup": [format_ns(use.startup_ns) for use in uses],
    }
    for name, values in rows.items():
        table.add_row(build_cell(name), *map(build_cell, values))
    print_table(table)
    click.echo()
    click.echo(f"Recommended sizes: {format_sizes(advice.smallest.sizes)}")
    _print_options(report, family, advice.smallest.sizes)
    if coverage is not None:
        options = list_size_options(report, family, (*advice.current_sizes, *coverage.new_sizes))
        if options:
            click.echo("To cover all requests:")
        for option in options:
            click.echo(f"  {option}")


def _format_request_time(advice: LadderAdvice, use: LadderCost) -> str:
    time = use.total_ns / advice.requests
    return format_ns(time) if time != float("inf") else ABSENT_TEXT


def _format_rate(advice: LadderAdvice, use: LadderCost) -> str:
    rate = advice.compute_throughput(use)
    return ABSENT_TEXT if rate is None else f"{round_significant(rate)}/s"


def _print_members(family: FamilyReport, count: int) -> None:
    print_heading(f"Graphs of {family.family.name}")
    table = create_table(
        "key",
        "steps",
        "GPU time",
        "samples",
        "launch",
        "capture",
        "first launch",
        "exclusive memory",
        "nodes",
        right=range(1, 9),
    )
    for member in family.members[:count]:
        exclusive = (member.exclusive_bytes or 0) + (member.executable_bytes or 0)
        table.add_row(
            build_cell(format_key(family.family, member.member)),
            build_cell(format_count(member.steps)),
            build_cell(format_ns(member.gpu.median) if member.gpu else ABSENT_TEXT),
            build_cell(format_count(len(member.gpu_ns))),
            build_cell(format_ns(member.launch.median) if member.launch else ABSENT_TEXT),
            build_cell(format_ns(member.capture_ns)),
            build_cell(format_ns(member.first_launch_ns)),
            build_cell(format_bytes(exclusive)),
            build_cell(format_count(member.nodes)),
        )
    print_table(table)
    if count < len(family.members):
        click.echo(f"  {count} of {len(family.members):,} by size; --list shows more")
