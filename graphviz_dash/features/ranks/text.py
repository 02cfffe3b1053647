"""Ranks of an experiment on the terminal, as part of ``compare``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.cli.text.output import ABSENT, cell, plain_table, print_heading, print_table
from graphviz_dash.errors import printable
from graphviz_dash.features.ranks.narrative import clock_sentence, rank_notes, rank_sentence
from graphviz_dash.units import format_count, format_ns, format_percent


def print_ranks(modes: Sequence[ModeRanks]) -> None:
    """Print a sentence and a table for each mode; nothing for an experiment without ranks."""
    if not modes:
        return
    print_heading("Ranks")
    for mode in modes:
        click.echo(f"  {rank_sentence(mode)}.")
    click.echo()
    headings = (
        *("run", "rank", "step time", "launch CPU", "compute", "communication", "exposed"),
        *("waits", "transfers", "last"),
    )
    table = plain_table(*headings, right=range(1, len(headings)))
    for mode in modes:
        lateness_by_rank = {lateness.rank: lateness for lateness in mode.lateness}
        arrivals = sum(lateness.count for lateness in mode.lateness)
        for row in mode.ranks:
            late = lateness_by_rank.get(row.rank)
            times = (row.compute, row.communication, row.exposed, row.wait, row.transfer)
            table.add_row(
                cell(row.name),
                cell(row.rank),
                cell(row.step_time.text),
                cell(row.launch_cpu_time.text),
                *(cell(format_ns(time)) for time in times),
                cell(format_percent(late.count / arrivals) if late and arrivals else ABSENT),
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
            click.echo(f"  {mode.name}: per step {kinds}. {clock_sentence(mode)}".rstrip())
        for note in rank_notes(mode):
            click.echo(printable(f"  {mode.name}: {note}"))
