"""Ranks of an experiment on the terminal, as part of ``compare``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.cli.text.output import print_heading, print_sections, print_text
from graphviz_dash.features.ranks.narrative import (
    RANK_COLUMNS,
    describe_clock_alignment,
    describe_ranks,
    list_rank_caveats,
    list_rank_entries,
)
from graphviz_dash.units import format_count


def print_ranks(modes: Sequence[ModeRanks]) -> None:
    """Print a sentence and a table for each mode."""
    if not modes:
        return
    print_heading("Ranks")
    for mode in modes:
        click.echo(f"  {describe_ranks(mode)}.")
    click.echo()
    print_sections(RANK_COLUMNS, [list_rank_entries(mode) for mode in modes])
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
            print_text(f"  {mode.name}: {note}")
