"""Result of a gate on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.cli.text.output import cell, plain_table, print_heading, print_table
from graphviz_dash.errors import printable
from graphviz_dash.features.gate.gate import GateResult
from graphviz_dash.features.gate.markdown import (
    change_text,
    in_order,
    interval_text,
    verdict_text,
)


def print_gate(result: GateResult) -> None:
    """Print the verdict, each gated metric, and ungated items."""
    click.echo(printable(f"{result.experiment}: {verdict_text(result)}"))
    for broken in result.broken:
        click.echo(printable(f"  {broken.run}: {broken.text}"))
    if result.figures:
        click.echo()
        table = plain_table(
            "run", "figure", "baseline", "now", "change", "99% interval", "", right=(2, 3, 4, 5)
        )
        for figure in in_order(result.figures):
            table.add_row(
                cell(figure.run),
                cell(figure.title),
                cell(figure.metric.format(figure.before)),
                cell(figure.metric.format(figure.now)),
                cell(change_text(figure)),
                cell(interval_text(figure)),
                cell(figure.verdict.value),
            )
        print_table(table)
    if result.host is not None:
        click.echo(f"\n{result.host}")
    for title, lines in (
        ("Different from the baseline", result.differences),
        ("Not gated", result.notes),
    ):
        if lines:
            print_heading(title)
            for line in lines:
                click.echo(printable(f"  {line}"))
