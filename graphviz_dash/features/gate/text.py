"""Result of a gate on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.cli.text.output import create_table, print_heading, print_table, print_text
from graphviz_dash.features.gate.gate import GateResult
from graphviz_dash.features.gate.markdown import (
    describe_verdict,
    format_change,
    format_interval,
    sort_by_verdict,
)


def print_gate(result: GateResult) -> None:
    """Print the verdict, each gated metric, and ungated items."""
    print_text(f"{result.experiment}: {describe_verdict(result)}")
    for broken in result.failures:
        print_text(f"  {broken.run}: {broken.text}")
    if result.changes:
        click.echo()
        table = create_table(
            "run", "figure", "baseline", "now", "change", "99% interval", "", right=(2, 3, 4, 5)
        )
        for figure in sort_by_verdict(result.changes):
            table.add_row(
                figure.run,
                figure.title,
                figure.metric.format(figure.baseline),
                figure.metric.format(figure.current),
                format_change(figure),
                format_interval(figure),
                figure.verdict.value,
            )
        print_table(table)
    if result.host_warning is not None:
        click.echo(f"\n{result.host_warning}")
    for title, lines in (
        ("Different from the baseline", result.differences),
        ("Not gated", result.notes),
    ):
        if lines:
            print_heading(title)
            for line in lines:
                print_text(f"  {line}")
