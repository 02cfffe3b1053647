"""What a graph would take on several streams, on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.analysis.parallel.prediction import ParallelPrediction
from graphviz_dash.cli.text.output import cell, plain_table, print_table
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.parallel import (
    STREAM_HEADINGS,
    parallel_notes,
    parallel_verdict,
    stream_row,
)


def print_parallel(prediction: ParallelPrediction | Missing) -> None:
    """Prints what a graph would take by streams, or why that is not known."""
    if isinstance(prediction, Missing):
        click.echo(f"  on several streams: {prediction.reason}")
        return
    click.echo(f"  {parallel_verdict(prediction)}")
    if len(prediction.rows) > 1:
        table = plain_table(*STREAM_HEADINGS, right=range(5))
        for row in prediction.rows:
            table.add_row(*map(cell, stream_row(row)))
        print_table(table)
    for note in parallel_notes(prediction):
        click.echo(f"  {note}")
