"""Graph family and its recommended sizes on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.loop.keys import format_key
from graphviz_dash.cli.text.output import (
    ABSENT_TEXT,
    build_cell,
    create_table,
    print_heading,
    print_table,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderCost
from graphviz_dash.features.ladder.narrative import (
    describe_advice,
    describe_bound,
    describe_ceiling,
    describe_fastest,
    describe_interpolation,
    describe_losses,
    describe_memory_method,
    describe_real_sizes,
    format_sizes,
    list_sets,
    summarize_loop,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_bytes, format_count, format_ns, round_significant


def print_ladder(
    report: LoopReport, family: FamilyReport, advice: LadderAdvice | Missing, count: int
) -> None:
    """Print the advice for ``family``, and ``count`` of its graphs by size."""
    if not isinstance(advice, Missing):
        click.echo(describe_advice(advice))
    click.echo(summarize_loop(report))
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
        _print_advice(advice)
        click.echo(describe_memory_method(family.node_bytes))
    if count:
        _print_members(family, count)


def _print_advice(advice: LadderAdvice) -> None:
    for sentence in (
        describe_fastest(advice),
        describe_interpolation(advice),
        describe_ceiling(advice),
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
