"""Break-even on the terminal: savings by number of replays."""

from __future__ import annotations

import click

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.cli.text.output import build_cell, create_table, print_heading, print_table
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.break_even import format_break_even
from graphviz_dash.narrative.summary import format_break_even_title
from graphviz_dash.units import format_count, format_ns


def print_break_even(run: RunComparison | None) -> None:
    """Print the savings of a run after increasing numbers of replays; nothing without a
    break-even."""
    if run is None or isinstance(run.break_even, Missing):
        return
    print_heading(format_break_even_title(run))
    click.echo(f"  {format_break_even(run.break_even)}")
    click.echo()
    table = create_table("replays", "saved", "95% from", "to", right=range(4))
    for count in run.break_even.list_replay_powers():
        low, middle, high = run.break_even.compute_net_saving(count)
        table.add_row(
            build_cell(format_count(count)),
            *(build_cell(format_ns(value)) for value in (middle, low, high)),
        )
    print_table(table)
