"""Graph family and its recommended sizes on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.loop.keys import key_text
from graphviz_dash.cli.text.output import ABSENT, cell, plain_table, print_heading, print_table
from graphviz_dash.errors import printable
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderUse
from graphviz_dash.features.ladder.narrative import (
    advice_sentence,
    bound_sentence,
    ceiling_sentence,
    interpolation_sentence,
    loop_sentence,
    loss_sentence,
    pool_method,
    sizes_sentence,
    sizes_text,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_bytes, format_count, format_ns, significant


def print_ladder(
    report: LoopReport, family: FamilyReport, advice: LadderAdvice | Missing, count: int
) -> None:
    """Print the advice for ``family``, and ``count`` of its graphs by size."""
    click.echo(loop_sentence(report))
    if len(report.families) > 1:
        others = [other.family.name for other in report.families if other is not family]
        click.echo(printable(f"Family {family.family.name}; other families: {', '.join(others)}."))
    for sentence in (sizes_sentence(family), loss_sentence(family)):
        if sentence:
            click.echo(sentence)
    click.echo()
    if isinstance(advice, Missing):
        click.echo(printable(f"No recommendation: {advice.reason}."))
    else:
        _print_advice(advice)
        click.echo(pool_method(family.node_bytes))
    if count:
        _print_members(family, count)


def _print_advice(advice: LadderAdvice) -> None:
    click.echo(advice_sentence(advice))
    for sentence in (
        ceiling_sentence(advice),
        interpolation_sentence(advice),
        bound_sentence(advice),
    ):
        if sentence:
            click.echo(sentence)
    click.echo()
    table = plain_table("", "today", "best", right=(1, 2))
    uses = (advice.today_use, advice.use)
    rows = {
        "sizes": [format_count(len(sizes)) for sizes in (advice.today, advice.ladder.sizes)],
        "GPU time per request": [_request(advice, use) for use in uses],
        "  of which padding": [format_ns(use.padding_ns / advice.requests) for use in uses],
        "fallbacks": [format_count(round(use.fallbacks)) for use in uses],
        "throughput": [_rate(advice, use) for use in uses],
        "memory": [format_bytes(use.memory_bytes) for use in uses],
        "startup": [format_ns(use.startup_ns) for use in uses],
    }
    for name, (before, after) in rows.items():
        table.add_row(cell(name), cell(before), cell(after, "bold"))
    print_table(table)
    click.echo()
    click.echo(f"Best sizes: {sizes_text(advice.ladder.sizes)}")


def _request(advice: LadderAdvice, use: LadderUse) -> str:
    time = use.total_ns / advice.requests
    return format_ns(time) if time != float("inf") else ABSENT


def _rate(advice: LadderAdvice, use: LadderUse) -> str:
    rate = advice.rate(use)
    return ABSENT if rate is None else f"{significant(rate)}/s"


def _print_members(family: FamilyReport, count: int) -> None:
    print_heading(f"Graphs of {family.family.name}")
    table = plain_table(
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
        exclusive = (member.own_bytes or 0) + (member.executable_bytes or 0)
        table.add_row(
            cell(key_text(family.family, member.member)),
            cell(format_count(member.steps)),
            cell(format_ns(member.gpu.median) if member.gpu else ABSENT),
            cell(format_count(len(member.gpu_ns))),
            cell(format_ns(member.launch.median) if member.launch else ABSENT),
            cell(format_ns(member.capture_ns)),
            cell(format_ns(member.first_launch_ns)),
            cell(format_bytes(exclusive)),
            cell(format_count(member.nodes)),
        )
    print_table(table)
    if count < len(family.members):
        click.echo(f"  {count} of {len(family.members):,} by size; --list shows more")
