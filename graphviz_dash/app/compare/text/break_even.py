"""Break-even on the terminal: savings by number of replays."""

from __future__ import annotations

import click

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.cli.text.output import cell, plain_table, print_heading, print_table
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.break_even import break_even_text
from graphviz_dash.narrative.summary import break_even_title
from graphviz_dash.units import format_count, format_ns


def print_break_even(run: RunComparison | None) -> None:
    """Print the savings of a run after increasing numbers of replays; nothing without a
    break-even."""
    if run is None or isinstance(run.break_even, Missing):
        return
    print_heading(break_even_title(run))
    click.echo(f"  {break_even_text(run.break_even)}")
    click.echo()
    table = plain_table("replays", "saved", "95% from", "to", right=range(4))
    for count in run.break_even.powers():
        low, middle, high = run.break_even.saved(count)
        table.add_row(
            cell(format_count(count)),
            *(cell(format_ns(value)) for value in (middle, low, high)),
        )
    print_table(table)
