"""Ranks of an experiment on the terminal, as part of ``compare``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.cli.text.output import (
    ABSENT_TEXT,
    build_cell,
    create_table,
    print_heading,
    print_table,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.ranks.narrative import (
    describe_clock_alignment,
    describe_ranks,
    list_rank_caveats,
)
from graphviz_dash.units import format_count, format_ns, format_percent


def print_ranks(modes: Sequence[ModeRanks]) -> None:
    """Print a sentence and a table for each mode; nothing for an experiment without ranks."""
    if not modes:
        return
    print_heading("Ranks")
    for mode in modes:
        click.echo(f"  {describe_ranks(mode)}.")
    click.echo()
    headings = (
        *("run", "rank", "step time", "launch CPU", "compute", "communication", "exposed"),
        *("waits", "transfers", "last"),
    )
    table = create_table(*headings, right=range(1, len(headings)))
    for mode in modes:
        lateness_by_rank = {lateness.rank: lateness for lateness in mode.arrival_delays}
        arrivals = sum(lateness.count for lateness in mode.arrival_delays)
        for row in mode.ranks:
            late = lateness_by_rank.get(row.rank)
            times = (row.compute, row.communication, row.exposed, row.wait, row.transfer)
            table.add_row(
                build_cell(row.name),
                build_cell(row.rank),
                build_cell(row.step_time.text),
                build_cell(row.launch_cpu_time.text),
                *(build_cell(format_ns(time)) for time in times),
                build_cell(
                    format_percent(late.count / arrivals) if late and arrivals else ABSENT_TEXT
                ),
            )
        table.add_section()
    print_table(table)
    click.echo()
    click.echo(
        "Step time and launch CPU time are clean; other times are medians per traced step. Last: "
        "share of the collectives at which the rank arrived last."
    )
    for mode in modes:
        kinds = ", ".join(f"{format_count(n)} {kind.value}" for kind, n in mode.kinds.items())
        if kinds:
            click.echo(
                f"  {mode.name}: per step {kinds}. {describe_clock_alignment(mode)}".rstrip()
            )
        for note in list_rank_caveats(mode):
            click.echo(escape_control_characters(f"  {mode.name}: {note}"))
